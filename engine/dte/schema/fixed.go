package schema

import (
	"fmt"
	"slices"
	"strings"

	"dtegate/engine/dte"
)

// A signed bundle may still be wrong, or forged with a stolen key. This file defines what no bundle may change:
//
//   - At load: a fact may go only to the place of its own name, or to its place in the closed list renamed. A bundle
//     may give only these constants: null, 0, MH's own (fixed) and "Sin observaciones". A place that is Factual may get
//     neither 0 nor an amount of the module.
//   - At every fill: if a place has a fact of its own and the bundle gives another source, the document must have the
//     fact's value, except for amounts that sums.go checks.
//   - At every fill of a rule's answer: the document must show the till's amounts of each line and the till's global
//     discounts unchanged. The box itself checks that lines add up to totals, and totals to the amount to be paid
//     (sums.go).
//
// A breach is the bundle's fault, never the till's: Fill returns it as the only fault, with the code Contradiction.

// Contradiction is the code of the fault of a bundle that contradicts the box. Its message is English, for operators.
const Contradiction = "CONTRADICTION"

// renamed maps a place to its fact, if the two have different names in one of MH's generations. No bundle may extend
// the list: it decides which fact a place shows.
var renamed = map[string]string{
	"cuerpoDocumento[].fechaGeneracion":  "cuerpoDocumento[].fechaEmision",
	"cuerpoDocumento[].numDocumento":     "cuerpoDocumento[].numeroDocumento",
	"cuerpoDocumento[].obsItem":          "cuerpoDocumento[].observaciones",
	"cuerpoDocumento[].tipoDepreciacion": "cuerpoDocumento[].depreciacion",
	"cuerpoDocumento[].tipoDoc":          "cuerpoDocumento[].tipoGeneracion",
	"emisor.codEstableMH":                "emisor.codEstable",
	"emisor.codPuntoVentaMH":             "emisor.codPuntoVenta",
	"emisor.codigo":                      "emisor.codEstable",
	"emisor.codigoMH":                    "emisor.codEstable",
	"emisor.nomEstablecimiento":          "emisor.nombreComercial",
	"emisor.puntoVenta":                  "emisor.codPuntoVenta",
	"emisor.puntoVentaContri":            "emisor.codPuntoVenta",
	"emisor.puntoVentaMH":                "emisor.codPuntoVenta",
	"emisor.recintoFiscal":               "resumen.recintoFiscal",
	"emisor.regimen":                     "resumen.regimen",
	"emisor.tipoItemExpor":               "resumen.tipoItemExpor",
	"emisor.tipoRegimen":                 "resumen.tipoRegimen",
	"extension.observaciones":            "resumen.observaciones",
	"identificacion.fecAnula":            "identificacion.fecEmi",
	"identificacion.horAnula":            "identificacion.horEmi",
	"identificacion.motivoContigencia":   "identificacion.motivoContin",
}

// roles maps the names of the parts that describe a party to "emisor", the issuer, or "receptor", the other party.
var roles = map[string]string{"emisor": "emisor", "donatario": "emisor", "receptor": "receptor",
	"sujetoExcluido": "receptor", "donante": "receptor"}

// Issuer reports whether a part of a document describes the issuer, under one of MH's names.
func Issuer(root string) bool { return roles[root] == "emisor" }

// Priced reports whether a fact of this name determines the amount of a line.
func Priced(name string) bool {
	return slices.Contains(saidOfLine, name) || slices.Contains(soldAs, name)
}

// Identifies reports whether a member of this name identifies a person, a document, a place or a time.
func Identifies(name string) bool { return slices.Contains(identity, name) }

// Counted reports whether a member of this name (most amounts, and some other values) is always shown with MH's label,
// or never shown. No bundle may label it.
func Counted(name string) bool {
	free := slices.Concat(exported, carriage, []string{"totalNoOnerosas", "valorTotal"})
	return slices.Contains(known, name) && !slices.Contains(free, name) ||
		slices.Contains([]string{"cantidad", "precioUni", "montoDescu", "noGravado", "montoSujetoGrav", "ivaRetenido",
			"ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "telefono", "correo", "descActividad", "numItem",
			"uniMedida", "descripcion", "psv", "ivaItem"}, name)
}

// saidOfLine lists the amounts that the till gives for a line of a sale, a withholding, a donation or a liquidation.
var saidOfLine = []string{"cantidad", "precioUni", "montoDescu", "noGravado", "montoSujetoGrav", "ivaRetenido",
	"valorUni", "depreciacion", "exportaciones", "valorOperaciones", "montoSinPercepcion", "comision", "seguro",
	"flete", "psv"}

// identity lists the members whose only source may be the fact with the same name.
var identity = []string{"version", "ambiente", "tipoDte", "tipoEvento", "numeroControl", "codigoGeneracion", "fecEmi",
	"horEmi", "tipoModelo", "tipoOperacion", "tipoContingencia", "motivoContin", "tipoMoneda", "fusion", "fTransmision",
	"hTransmision", "nit", "nrc", "nombre", "tipoDocumento", "numDocumento", "codEstable", "codPuntoVenta",
	"selloRecibido", "codigoGeneracionR", "tipoDoc", "numeroDocumento", "fechaEmision", "nombEntrega", "docuEntrega",
	"nombRecibe", "docuRecibe"}

// told lists the members that only a fact, or a constant of fixed, may set. Some are members of lines and resumen.
var told = slices.Concat(identity, []string{"numItem", "tipoItem", "codigo", "codTributo", "uniMedida", "descripcion",
	"condicionOperacion", "plazo", "periodo", "referencia", "numPagoElectronico", "observaciones"})

// hyphenated lists the members that a generation may write with hyphens: numbers of people and firms.
var hyphenated = []string{"nit", "nrc", "numDocumento", "docIdentificacion", "docuEntrega", "docuRecibe",
	"numDocResponsable", "numDocSolicita", "numeroDocResponsable"}

// fixed lists the members to which a generation may give a constant value.
var fixed = []string{"identificacion.version", "identificacion.ambiente", "identificacion.tipoDte",
	"identificacion.tipoEvento", "identificacion.tipoMoneda", "identificacion.tipoModelo",
	"identificacion.tipoOperacion", "emisor.tipoDocumento", "donatario.tipoDocumento"}

// held reports whether a path of the document is outside the lines and the totals, the parts that rules compute.
func held(document string) bool {
	root, _, _ := strings.Cut(document, ".")
	return document != "" && strings.TrimSuffix(root, "[]") != linesName && root != summaryName
}

// Factual reports whether only facts may give a value to the place at a path of the document.
func Factual(document string) bool {
	return held(document) || slices.Contains(told, document[strings.LastIndexByte(document, '.')+1:])
}

// checkSource refuses a source other than the place's fact: own, renamed[own], or own in a renamed party (roles). A
// Factual place may also be null if another place shows its fact (moved). Any other place may be null, an amount or 0.
func (e *entry) checkSource(own string, moved bool) error {
	last := own[strings.LastIndexByte(own, '.')+1:]
	constant := e.value.Exists() && !e.value.IsNull()
	remark := strings.HasSuffix(e.fact, ".observaciones") && e.value.Text() == "Sin observaciones" // MH requires it
	switch {
	case e.form != "" && !slices.Contains(hyphenated, last):
		return fmt.Errorf("overlay: from: %s: a form would change it", e.path)
	case Factual(e.path) && (e.amount != "" || e.words != "" || constant):
		return fmt.Errorf("overlay: from: %s: must be its own fact, not an amount or a constant", e.path)
	case constant && !zero(e.value) && !remark:
		return fmt.Errorf("overlay: from: %s: must not be a constant other than 0", e.path)
	case Factual(e.path) && e.fact == "" && !moved:
		return fmt.Errorf("overlay: from: %s: null would hide the fact, which has no other place", e.path)
	case e.fact == "" || e.fact == own || e.fact == renamed[own]:
		return nil
	}
	root, below, _ := strings.Cut(own, ".")
	from, under, _ := strings.Cut(e.fact, ".")
	if below == under && (roles[root] == from || root == "documento" && from == "receptor") {
		return nil // the same member of a party that this generation renames; a return's receptor is documento
	}
	return fmt.Errorf("overlay: from: %s: must be its own fact, not %s", e.path, e.fact)
}

// judged reports whether the entry's value must be compared with own, the place's own fact; name is the place's name.
// No comparison is needed for own itself, for an amount in words (see checkAnswers), and in a place that sums.go checks
// for an amount of the module or the constant 0.
func (e *entry) judged(own, name string) bool {
	return e.fact != own && !strings.HasSuffix(name, inWords) && (!counted(name) || e.amount == "" && !zero(e.value))
}

func zero(v dte.Value) bool {
	n, err := v.Amount()
	return err == nil && n == 0
}

// checkFixed returns an error if the layout s at path permits only one value, a constant. Allowed are the paths in
// fixed, the constant null, and the constant 0 unless the place is Factual.
func (s *schema) checkFixed(path string) error {
	if len(s.enum) == 1 && s.enum[0].Kind() != dte.KindNull && !slices.Contains(fixed, path) && (Factual(path) ||
		!zero(s.enum[0])) {
		return fmt.Errorf("schema of %s: fixes a value that only the facts may give: %s", path, s.enum[0].Append(nil))
	}
	for i := range s.properties {
		if err := s.properties[i].schema.checkFixed(join(path, s.properties[i].name)); err != nil {
			return err
		}
	}
	for _, x := range s.all {
		if err := x.checkFixed(path); err != nil {
			return err
		}
	}
	if s.items != nil {
		return s.items.checkFixed(path + "[]")
	}
	return nil
}

// Requirements lists what a layout must have before the box signs documents with it.
type Requirements struct {
	Version  int      // identificacion.version
	Kind     string   // the member of identificacion that names the type; "": no member
	Type     string   // the value of that member
	Facts    []string // the paths of facts for which the layout must have a place; "a|b" means a or b
	Computed bool     // a module computes the amounts of the lines, their sums and the total
}

// Meets returns an error that names the first requirement that the layout does not meet.
func (f *Filler) Meets(q Requirements) error {
	if f.version != q.Version {
		return fmt.Errorf("schema of identificacion.version: fixes %d, and the manifest is of generation %d",
			f.version, q.Version)
	}
	for i := range f.fields {
		x := &f.fields[i]
		root, _, below := strings.Cut(x.document, ".")
		from, _, _ := strings.Cut(x.path, ".")
		if role := roles[root]; below && x.types != 0 && role != "" && role != root && from != role {
			return fmt.Errorf("overlay: from: %s: must come from the %s, not from %s", x.document, role, x.path)
		}
		if x.types == 0 || x.document != "identificacion.tipoDte" && x.document != "identificacion.tipoEvento" {
			continue
		}
		if said := x.fallback.Text(); x.name != q.Kind || x.fallback.Kind() != dte.KindString || said != q.Type {
			return fmt.Errorf("schema of %s: must fix %q, the manifest's type, in %s", x.document, q.Type, q.Kind)
		}
		q.Kind = ""
	}
	if q.Kind != "" {
		return fmt.Errorf("schema of identificacion: has no %s, which names the type %s", q.Kind, q.Type)
	}
	for _, fact := range q.Facts {
		one, other, _ := strings.Cut(fact, "|")
		if !slices.ContainsFunc(f.fields, func(x field) bool {
			return x.types != 0 && (x.path == one || x.path == other) && held(x.document) == held(one) &&
				(x.from == nil || x.from.fact != nil)
		}) {
			return fmt.Errorf("schema: has no place for %s, which the document must contain", fact)
		}
	}
	if !q.Computed {
		return nil
	}
	return f.checkAnswers()
}

// checkAnswers refuses a layout in which the total, a total of sales or a line's amount is not the module's output of
// the same name: the box computes with the module's outputs, and the document must show the same amounts. It
// also refuses words of another amount, and a layout that the box could check only in part (see sums.go).
func (f *Filler) checkAnswers() error {
	a, shown := &f.amounts, "montoTotalOperacion" // shown stands in for a total that the layout does not show
	makes := func(e equation) bool { return e.total == a.total }
	switch {
	case a.alone != "":
		return fmt.Errorf("schema of %s: the layout lacks the amounts that it is compared with", a.alone)
	case len(a.said) > 0 && !slices.ContainsFunc(a.equations, makes) && !slices.ContainsFunc(a.settled, makes) &&
		!slices.ContainsFunc(a.sums, func(s [2]int) bool { return s[0] == a.total }):
		return fmt.Errorf("schema: no amounts of the layout make the total, %s", f.total)
	}
	for i := range f.fields {
		x := &f.fields[i]
		amount, ofResumen := strings.CutPrefix(x.document, summaryName+".")
		column, ofLine := lineMember(x.document)
		switch {
		case x.types == 0:
		case x.source == sourceFacts && (ofResumen && (amount == f.total || slices.Contains(totalsSold, amount) ||
			amount == shown && a.total < 0) ||
			ofLine && slices.Contains(soldAs, column)):
			return fmt.Errorf("schema of %s: is not the module's output of that name", x.document)
		case (x.from == nil || x.from.words < 0) && (!strings.HasSuffix(x.name, inWords) || !ofResumen && !ofLine):
		case x.from == nil || x.from.words < 0:
			return fmt.Errorf("overlay: from: %s: must be the words of what is paid", x.document)
		case f.out.Summary[x.from.words] != f.total && (a.total >= 0 || f.out.Summary[x.from.words] != shown ||
			f.Place(summaryName+"."+shown) == nil):
			return fmt.Errorf("overlay: from: %s: must be the words of %s", x.document, f.total)
		}
	}
	return nil
}

// contradict notes a fault of the bundle. Only the first is kept.
func (r *run) contradict(path, message string) {
	if r.contradiction.Code == "" {
		r.contradiction = dte.Fault{Path: path, Code: Contradiction, Message: message}
	}
}

// agree compares a place's own fact with the value that the document has there. A difference is a contradiction.
func (r *run) agree(f *field, si int32, own *dte.Value) {
	s := &r.slots[si]
	switch kind := own.Kind(); {
	case kind == dte.KindAbsent, s.kind == kindPending, s.kind <= dte.KindNull && (f.moved || kind == dte.KindNull):
	case kind == dte.KindNull && !held(f.document): // the bundle may give a value in place of a line's null
	case kind >= dte.KindArray, !s.equals(*own):
		given := string(r.write(nil, f.at, si))
		r.contradict(r.path(f), "the bundle gives "+given+", and the fact is "+string(own.Append(nil)))
	}
}
