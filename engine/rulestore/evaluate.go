package rulestore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/rules/abi"
)

// binding maps a module's inputs to facts by the names that the module declares. The engine itself knows no inputs.
type binding struct {
	description *abi.Description
	scalars     [][]string // path of each scalar's fact
}

func bind(d *abi.Description) binding {
	b := binding{description: d}
	for _, f := range d.Scalars {
		b.scalars = append(b.scalars, strings.Split(f.Name, "."))
	}
	return b
}

// Evaluation is the result of one call of a module. Its memory is reused: see Free.
type Evaluation struct {
	in       abi.Input
	Out      abi.Output
	taxes    []schema.TaxAmount
	Computed schema.Computed
	Warnings []string
	Rule     *Rule // the rule that computed the document

	Document []byte      // filled by Make, nil if the layout refuses it
	Refused  []dte.Fault // the faults that the layout finds
}

var evaluations = sync.Pool{New: func() any { return new(Evaluation) }}

// Free returns the memory of an evaluation to the pool. Do not use the evaluation afterwards.
func (ev *Evaluation) Free() {
	ev.Document, ev.Refused = nil, nil
	evaluations.Put(ev)
}

// Make computes and fills a document. An error is a fault of the bundle: the module failed, or the bundle contradicts
// or refuses the box's own data. The caller owns the document's bytes.
func (r *Rule) Make(ctx context.Context, facts dte.Value, o schema.FillOptions) (*Evaluation, []dte.Fault, error) {
	ev, faults, err := r.Evaluate(ctx, facts)
	if ev == nil {
		if refused := ofBox(&r.Ref, faults); refused != nil {
			r.module.Contradicted()
			return nil, nil, refused
		}
		return nil, faults, err
	}
	const line, rest = 512, 2048 // bytes for a line, and for the rest of the document: a little more than most need
	ev.Document, ev.Refused, err = r.Fill(make([]byte, 0, rest+line*ev.Computed.N), facts, &ev.Computed, o)
	number := facts.Get("identificacion").Get("numeroControl").Text()
	if places := bytes.Count(ev.Document, NumberPlace(number)); err == nil && ev.Document != nil &&
		places != r.Filler.Numbers() {
		err = fmt.Errorf("rule %s %s contradicts what the box knows: the control number is at %d places", r.Ref.Name,
			r.Ref.Version, places)
	}
	if err != nil {
		r.module.Contradicted()
		ev.Free()
		return nil, nil, err
	}
	return ev, nil, nil
}

// Remake is Make for a caller that needs only the document. Its faults are those of the first check that found any.
func (r *Rule) Remake(ctx context.Context, facts dte.Value, o schema.FillOptions) ([]byte, []dte.Fault, error) {
	ev, faults, err := r.Make(ctx, facts, o)
	if ev == nil {
		return nil, faults, err
	}
	defer ev.Free()
	return ev.Document, ev.Refused, nil
}

// NumberPlace returns the bytes of the member numeroControl. No text can contain them: quotes in texts are escaped.
func NumberPlace(number string) []byte { return []byte(`"numeroControl":"` + number + `"`) }

// Evaluate computes the amounts of a document. Returned faults are faults of the till's facts; an error is a fault of
// the module. Call Free on the evaluation when the document is filled.
func (r *Rule) Evaluate(ctx context.Context, facts dte.Value) (*Evaluation, []dte.Fault, error) {
	ev := evaluations.Get().(*Evaluation)
	if faults := r.bind.input(facts, r.params, &ev.in); len(faults) > 0 {
		evaluations.Put(ev)
		return nil, faults, nil
	}
	if err := r.module.Evaluate(ctx, &ev.in, &ev.Out); err != nil {
		evaluations.Put(ev)
		return nil, nil, fmt.Errorf("evaluating rule %s %s: %w", r.Ref.Name, r.Ref.Version, err)
	}
	var refused []dte.Fault
	refused, ev.Warnings = r.bind.faults(ev.Out.Faults)
	if len(refused) > 0 {
		evaluations.Put(ev)
		return nil, refused, nil
	}
	ev.taxes = ev.taxes[:0]
	for _, t := range ev.Out.Taxes {
		ev.taxes = append(ev.taxes, schema.TaxAmount{Tax: t.Tax, Amount: dte.Amount(t.Amount)})
	}
	ev.Computed = schema.Computed{N: ev.in.N, Lines: ev.Out.Lines, Summary: ev.Out.Summary, Taxes: ev.taxes}
	ev.Rule = r
	return ev, nil, nil
}

// input fills the module's input with the facts, in the order of the module's description.
func (b *binding) input(facts dte.Value, params []int64, in *abi.Input) []dte.Fault {
	d := b.description
	var faults []dte.Fault
	in.Params = append(in.Params[:0], params...)
	in.Scalars = in.Scalars[:0]
	for i := range d.Scalars {
		n, fault := scalar(&d.Scalars[i], facts, b.scalars[i])
		if fault != nil {
			fault.Path = cmp.Or(fault.Path, d.Scalars[i].Name)
			faults = append(faults, *fault)
		}
		in.Scalars = append(in.Scalars, n)
	}
	lines := facts.Get("cuerpoDocumento")
	in.N = lines.Len()
	in.Lines = in.Lines[:0]
	for i := range in.N {
		line := lines.Index(i)
		for c := range d.Columns {
			n, fault := number(&d.Columns[c], line.Get(d.Columns[c].Name))
			if fault != nil {
				fault.Path = "cuerpoDocumento[" + strconv.Itoa(i) + "]." + d.Columns[c].Name
				faults = append(faults, *fault)
			}
			in.Lines = append(in.Lines, n)
		}
	}
	return faults
}

// scalar returns the fact at a path. For a path with a list (a name that ends in []) it returns the sum of the amounts
// in the list's items, or a fault if only some items have the amount.
func scalar(f *abi.Field, v dte.Value, path []string) (int64, *dte.Fault) {
	for depth, name := range path {
		list, ok := strings.CutSuffix(name, "[]")
		v = v.Get(list)
		if !ok {
			continue
		}
		sum, present := dte.Amount(0), 0
		for i := range v.Len() {
			n, fault := scalar(f, v.Index(i), path[depth+1:])
			if fault != nil {
				return 0, fault
			}
			if n == abi.Absent {
				continue
			}
			present++
			if a := dte.Amount(n); a > 0 && sum > dte.MaxAmount-a || a < 0 && sum < -dte.MaxAmount-a {
				return 0, &dte.Fault{Code: dte.FaultRange, Message: "La suma supera el monto máximo"}
			}
			sum += dte.Amount(n)
		}
		switch {
		case present == 0:
			return abi.Absent, nil
		case present < v.Len():
			return 0, &dte.Fault{Code: dte.FaultRequired, Message: "Es obligatorio en cada uno cuando alguno lo lleva"}
		}
		return int64(sum), nil
	}
	return number(f, v)
}

func number(f *abi.Field, v dte.Value) (int64, *dte.Fault) {
	if !v.Present() {
		switch {
		case f.Kind == "present":
			return 0, nil
		case f.Required:
			return 0, &dte.Fault{Code: dte.FaultRequired, Message: "Es obligatorio"}
		case f.Kind == "enum" || f.Kind == "set":
			return 0, nil
		}
		return abi.Absent, nil
	}
	switch f.Kind {
	case "present":
		return 1, nil
	case "amount":
		a, err := v.Amount()
		if err != nil {
			return 0, &dte.Fault{Code: dte.FaultType,
				Message: "Debe ser un número menor que 92,000,000,000, de a lo sumo 8 decimales"}
		}
		return int64(a), nil
	case "integer":
		if n, ok := v.Int(); ok {
			return n, nil
		}
		return 0, &dte.Fault{Code: dte.FaultType, Message: "Debe ser un número entero"}
	case "flag":
		if v.Kind() != dte.KindBool {
			return 0, &dte.Fault{Code: dte.FaultType, Message: "Debe ser true o false"}
		}
		if v.Bool() {
			return 1, nil
		}
		return 0, nil
	case "enum":
		if i := slices.Index(f.Values, v.Text()); i >= 0 && v.Kind() == dte.KindString {
			return int64(i), nil
		}
	case "set":
		return set(f, v)
	}
	return 0, &dte.Fault{Code: dte.FaultEnum, Message: "Debe ser uno de: " + strings.Join(f.Values, ", ")}
}

func set(f *abi.Field, v dte.Value) (int64, *dte.Fault) {
	var bits int64
	for i := range v.Len() {
		bit := slices.Index(f.Values, v.Index(i).Text())
		if bit < 0 {
			return 0, &dte.Fault{Code: dte.FaultEnum, Message: "Cada valor debe ser uno de: " + strings.Join(f.Values,
				", ")}
		}
		bits |= 1 << bit
	}
	return bits, nil
}

// faults converts the module's faults to faults of the facts, and separates refusals from warnings.
func (b *binding) faults(found []abi.Fault) (refused []dte.Fault, warnings []string) {
	d := b.description
	for _, f := range found {
		text := d.Faults[f.Code]
		if text.Warning {
			warnings = append(warnings, text.Message)
			continue
		}
		fault := dte.Fault{Code: text.Code, Message: text.Message}
		switch {
		case f.Line >= 0:
			fault.Path = "cuerpoDocumento[" + strconv.Itoa(f.Line) + "]"
			if f.Column >= 0 {
				fault.Path += "." + d.Columns[f.Column].Name
			}
		case f.Column >= 0:
			fault.Path = d.Scalars[f.Column].Name
		}
		refused = append(refused, fault)
	}
	return refused, warnings
}
