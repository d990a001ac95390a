package schema

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
)

// derive makes from a document the answer that a rule module would have given for it, and facts without those amounts.
func derive(f *Filler, document dte.Value) (Outputs, Computed, dte.Value) {
	var out Outputs
	var c Computed
	for _, x := range f.fields {
		number := x.types&typeNumber != 0 && !Factual(x.document)
		if name, ok := strings.CutPrefix(x.document, "cuerpoDocumento[]."); ok && number &&
			!strings.Contains(name, ".") &&
			name != "cantidad" && name != "precioUni" && name != "montoDescu" &&
			name != "noGravado" {
			out.Lines = append(out.Lines, Output{Name: name})
		}
		if x.document == "cuerpoDocumento[].tributos" {
			out.Lines = append(out.Lines, Output{Name: "tributos", Set: true})
		}
		if name, ok := strings.CutPrefix(x.document, "resumen."); ok && number && !strings.Contains(name, "[]") {
			if v := document.Get("resumen").Get(name); v.Kind() == dte.KindNumber {
				a, _ := v.Amount()
				out.Summary, c.Summary = append(out.Summary, name), append(c.Summary, int64(a))
			}
		}
	}
	tax := func(code string) int {
		i := slices.Index(out.Taxes, code)
		if i < 0 {
			out.Taxes = append(out.Taxes, code)
			i = len(out.Taxes) - 1
		}
		return i
	}
	resumen := document.Get("resumen")
	for i := range resumen.Get("tributos").Len() {
		row := resumen.Get("tributos").Index(i)
		a, _ := row.Get("valor").Amount()
		c.Taxes = append(c.Taxes, TaxAmount{tax(row.Get("codigo").Text()), a})
	}
	lines := document.Get("cuerpoDocumento")
	c.N = lines.Len()
	var bare []dte.Value
	for i := range c.N {
		line := lines.Index(i)
		var kept []dte.Member
		for _, m := range line.Members() {
			if !slices.ContainsFunc(out.Lines, func(o Output) bool { return o.Name == m.Name }) {
				kept = append(kept, m)
			}
		}
		bare = append(bare, dte.Obj(kept...))
		for _, o := range out.Lines {
			v := line.Get(o.Name)
			if o.Set {
				var mask int64
				for j := range v.Len() {
					mask |= 1 << tax(v.Index(j).Text())
				}
				c.Lines = append(c.Lines, mask)
				continue
			}
			a, _ := v.Amount()
			c.Lines = append(c.Lines, int64(a))
		}
	}
	var rest []dte.Member
	for _, m := range resumen.Members() {
		if !slices.Contains(out.Summary, m.Name) && m.Name != "tributos" {
			rest = append(rest, m)
		}
	}
	var discounts []dte.Member
	for amount, fact := range globalDiscounts {
		if v := resumen.Get(amount); v.Exists() {
			discounts = append(discounts, dte.Member{Name: fact, Value: v})
		}
	}
	return out, c, document.With("cuerpoDocumento", dte.Arr(bare...)).With("resumen",
		dte.Obj(rest...)).With("descuentoGlobal", dte.Obj(discounts...))
}

// everyTax is a catalogue that names the taxes as the given document does.
func everyTax(document dte.Value) *dte.Catalogues {
	values := map[string]string{"20": "?", "D1": "?", "C8": "?", "59": "?", "C3": "?"}
	taxes := document.Get("resumen").Get("tributos")
	for i := range taxes.Len() {
		values[taxes.Index(i).Get("codigo").Text()] = taxes.Index(i).Get("descripcion").Text()
	}
	text, err := json.Marshal(map[string]any{"version": "1", "source": "test",
		"catalogues": map[string]any{"CAT-015": map[string]any{"name": "?", "values": values}}})
	if err != nil {
		panic(err)
	}
	c, err := dte.ParseCatalogues(text)
	if err != nil {
		panic(err)
	}
	return c
}

func TestFill_ExamplesComeBackFromModule(t *testing.T) {
	done := 0
	for _, e := range examples(t) {
		overlay := string(drops(filepath.Base(e.schema), true))
		plain := compile(t, e.schema, overlay, Outputs{})
		if !e.document.Get("cuerpoDocumento").Index(0).Get("ventaGravada").Exists() ||
			e.document.Get("resumen").Get("tributos").Kind() == dte.KindAbsent {
			continue
		}
		out, c, facts := derive(plain, e.document)
		overlay = strings.TrimSuffix(overlay, "}") + `,"taxes":{"path":"resumen.tributos","catalogue":"CAT-015"}}`
		f, err := Compile(read(t, e.schema), []byte(overlay), out, everyTax(e.document))
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		got, faults := f.Fill(nil, facts, &c, FillOptions{})
		for _, fault := range faults {
			t.Errorf("%s: %s", e.name, fault.Error())
		}
		if faults != nil {
			continue
		}
		if !sameJSON(t, got, e.document.Append(nil)) {
			t.Errorf("%s: came back as\n%s\nnot\n%s", e.name, got, e.document.Append(nil))
		}
		if faults := f.Check(got); faults != nil {
			t.Errorf("%s: filled and then refused: %v", e.name, faults)
		}
		if _, faults := f.Fill(nil, facts, nil, FillOptions{}); faults != nil {
			t.Errorf("%s: without the module's answer: %v", e.name, faults)
		}
		done++
	}
	if done < 25 {
		t.Errorf("only %d documents", done)
	}
	t.Logf("%d documents", done)
}

// invoice returns a consumer invoice of n lines on MH's own file, with all amounts from a module.
func invoice(t testing.TB, n int) (*Filler, dte.Value, *Computed) {
	t.Helper()
	path := filepath.Join(skip.Folder(t), "schemas", published["01 2"])
	var document dte.Value
	for _, e := range examples(t) {
		if strings.HasSuffix(e.name, "v2_named_mixed_exempt_item_discount.json") {
			document = e.document
		}
	}
	line := document.Get("cuerpoDocumento").Index(0)
	var lines []dte.Value
	for i := range n {
		lines = append(lines, line.With("numItem", dte.Int(int64(i+1))))
	}
	var total, off dte.Amount
	for range n {
		sold, _ := line.Get("ventaGravada").Amount()
		less, _ := line.Get("montoDescu").Amount()
		total, off = total+sold, off+less
	}
	resumen := document.Get("resumen").With("tributos", dte.Null()).
		With("pagos", dte.Arr(document.Get("resumen").Get("pagos").Index(0).With("montoPago", dte.Num(total))))
	for _, m := range resumen.Members() {
		if m.Value.Kind() == dte.KindNumber && m.Name != "condicionOperacion" {
			resumen = resumen.With(m.Name, dte.Int(0))
		}
	}
	for _, name := range []string{"totalGravada", "subTotalVentas", "subTotal", "montoTotalOperacion", "totalPagar"} {
		resumen = resumen.With(name, dte.Num(total))
	}
	resumen = resumen.With("totalDescu", dte.Num(off))
	document = document.With("cuerpoDocumento", dte.Arr(lines...)).With("resumen", resumen)
	out, c, facts := derive(compile(t, path, "", Outputs{}), document)
	overlay := `{"total":"totalPagar","taxes":{"path":"resumen.tributos","catalogue":"CAT-015"},
		"from":[{"path":"resumen.totalLetras","words":"totalPagar","reason":"x"},
		{"path":"resumen.pagos[].montoPago","fact":"resumen.pagos[].montoPago","amount":"totalPagar","reason":"x"}]}`
	f, err := Compile(read(t, path), []byte(overlay), out, everyTax(document))
	if err != nil {
		t.Fatal(err)
	}
	return f, facts, &c
}

func benchmarkFill(b *testing.B, n int) {
	f, facts, c := invoice(b, n)
	dst, faults := f.Fill(nil, facts, c, FillOptions{})
	if faults != nil {
		b.Fatal(faults)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		if dst, faults = f.Fill(dst[:0], facts, c, FillOptions{}); faults != nil {
			b.Fatal(faults)
		}
	}
}

func BenchmarkFill_10Lines(b *testing.B)   { benchmarkFill(b, 10) }
func BenchmarkFill_2000Lines(b *testing.B) { benchmarkFill(b, 2000) }

func BenchmarkCheck_10Lines(b *testing.B) {
	f, facts, c := invoice(b, 10)
	document, _ := f.Fill(nil, facts, c, FillOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if faults := f.Check(document); faults != nil {
			b.Fatal(faults)
		}
	}
}

func BenchmarkParse_10Lines(b *testing.B) {
	f, facts, c := invoice(b, 10)
	document, _ := f.Fill(nil, facts, c, FillOptions{})
	b.ReportAllocs()
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		if _, err := dte.Parse(document); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFill_DoesNotAllocate(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "race detector", "it allocates")
	}
	f, facts, c := invoice(t, 10)
	dst, _ := f.Fill(nil, facts, c, FillOptions{})
	if n := testing.AllocsPerRun(200, func() { dst, _ = f.Fill(dst[:0], facts, c, FillOptions{}) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	f, facts, c = smallFiller(t), parse(t, smallFacts), smallComputed()
	if n := testing.AllocsPerRun(200, func() {
		dst, _ = f.Fill(dst[:0], facts, c,
			FillOptions{Catalogues: true})
	}); n >= 1 {
		t.Errorf("%v allocations with catalogues", n)
	}
}
