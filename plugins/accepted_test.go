package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"dtegate/engine/dte"
)

// explained are the documents whose own lines do not give the totals that MH accepted, and why. The test proves the
// reason: with the lines' amounts as accepted instead of price times quantity, nothing is more than a cent off.
var explained = map[string]string{
	"03/prev_v3_353_98.json": "its line says 353.98 for 4 at 88.50: its program kept more decimals of the price than it sent",
	"03/prev_v3_57_35.json":  "its line says 57.35 for 6 at 9.56, and its VAT 7.45 for 7.4555",
	"05/prev_v3_57_35.json":  "its line says 57.35 for 6 at 9.56, and its VAT 7.45 for 7.4555",
}

// Every accepted or constructed example is asked for again by its own lines: each amount that our bundle computes is
// the document's, or within the cent that MF2 pp.52-54 allows, or explained. Everything but amounts is the same.
func TestExamples(t *testing.T) {
	bundles := load(t)
	documents := examples(t, "0[1-9]/*.json", "1[0-9]/*.json")
	var table strings.Builder
	var all agreement
	for _, name := range sorted(documents) {
		r := bundles.of(documents[name])
		if r == nil {
			fmt.Fprintf(&table, "%-55s no bundle of its generation ships\n", name)
			continue
		}
		a := compare(documents[name], issue(t, name, r, ask(documents[name])))
		reason := explained[name]
		if reason != "" {
			again := compare(documents[name], issue(t, name, r, asAccepted(ask(documents[name]))))
			for _, difference := range again.beyond {
				t.Errorf("%s: explained by its lines, and yet %s with them", name, difference)
			}
			a.explained, a.beyond, a.other = len(a.beyond), nil, nil
		}
		for _, difference := range append(a.beyond, a.other...) {
			t.Errorf("%s: %s", name, difference)
		}
		fmt.Fprintf(&table, "%-55s %3d exact %3d within 0.01 %3d explained %s\n", name, a.exact, len(a.cent), a.explained, strings.Join(append([]string{reason}, a.cent...), "; "))
		all.exact, all.explained, all.cent = all.exact+a.exact, all.explained+a.explained, append(all.cent, a.cent...)
	}
	t.Logf("%d exact, %d within 0.01, %d explained\n%s", all.exact, len(all.cent), all.explained, table.String())
}

func issue(t *testing.T, name string, r *ready, facts dte.Value) dte.Value {
	t.Helper()
	b, err := r.issue(facts)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return dte.Value{}
	}
	v, err := dte.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// asAccepted asks for each line's accepted amount, whatever its price says.
func asAccepted(facts dte.Value) dte.Value {
	var lines []dte.Value
	for i := range facts.Get("cuerpoDocumento").Len() {
		line := facts.Get("cuerpoDocumento").Index(i)
		price, _ := line.Get("montoDescu").Amount()
		for _, name := range []string{"ventaNoSuj", "ventaExenta", "ventaGravada", "compra"} {
			a, _ := line.Get(name).Amount()
			price += a
		}
		lines = append(lines, line.With("cantidad", dte.Int(1)).With("precioUni", dte.Num(price)))
	}
	return facts.With("cuerpoDocumento", dte.Arr(lines...))
}

// agreement is how one document compares: the amounts of the summary that are exact, within a cent, explained or
// beyond, and what else differs.
type agreement struct {
	exact, explained    int
	cent, beyond, other []string
}

func compare(theirs, ours dte.Value) (a agreement) {
	want, got := map[string]dte.Value{}, map[string]dte.Value{}
	leaves(theirs, "", want)
	leaves(ours, "", got)
	for _, path := range sorted(want) {
		x, err1 := want[path].Amount()
		y, err2 := got[path].Amount()
		difference := max(x-y, y-x)
		told := fmt.Sprintf("%s is %s, theirs %s", path, got[path].Append(nil), want[path].Append(nil))
		switch amounts, summary := err1 == nil && err2 == nil, strings.HasPrefix(path, "resumen."); {
		case path == "resumen.totalLetras", path == "resumen.totalIVAretenidoLetras": // each program's own words, which MH does not read
		case path == "firmaElectronica", path == "selloRecibido": // what the delivered file adds to the document
		case amounts && summary && difference == 0:
			a.exact++
		case amounts && summary && difference <= dte.Scale/100:
			a.cent = append(a.cent, told)
		case amounts && summary:
			a.beyond = append(a.beyond, told)
		case amounts && difference <= dte.Scale/100: // MF2 pp.52-54 grants the cent to a line, too
		case err1 != nil && want[path].Kind() == got[path].Kind() && want[path].Text() == got[path].Text():
		default:
			a.other = append(a.other, told)
		}
		delete(got, path)
	}
	for _, path := range sorted(got) {
		a.other = append(a.other, fmt.Sprintf("%s is %s, theirs has none", path, got[path].Append(nil)))
	}
	return a
}
