package books

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// SummaryName is the name of the file that describes the other files.
const SummaryName = "resumen.json"

type summary struct {
	groups         map[groupKey]*group
	vat            decimal.Decimal // the VAT in the prices, according to the consumers' documents
	branches       map[int64]int
	nowhere, noted rows // one cell each: a named document as JSON
}

type groupKey struct {
	earlier     bool // issued in an earlier month, invalidated in this month
	kind, state string
}

// group holds the sums of the documents of a type and a state.
type group struct {
	Type       string `json:"tipo"`
	State      string `json:"estado"`
	Count      int    `json:"cantidad"`
	Total      sum    `json:"total"`
	Exempt     sum    `json:"exentas"`
	NonSubject sum    `json:"no_sujetas"`
	Taxed      sum    `json:"gravadas"`
	VAT        sum    `json:"iva"`
	OtherTaxes sum    `json:"otros_tributos"`
	Perceived  sum    `json:"iva_percibido"`
	Retained   sum    `json:"iva_retenido"`
	IncomeTax  sum    `json:"renta_retenida"`
	NonTaxed   sum    `json:"no_gravado"`
	Purchases  sum    `json:"compras"`
}

// sum is an amount that resumen.json contains as a text.
type sum struct{ decimal.Decimal }

func (s *sum) add(d decimal.Decimal) { s.Decimal = s.Add(d) }

func (s sum) MarshalJSON() ([]byte, error) { return json.Marshal(money(s.Decimal)) }

func (g *group) add(d *sealed) {
	g.Count++
	g.Total.add(d.total)
	g.Exempt.add(d.exempt)
	g.NonSubject.add(d.nonSubject)
	g.Taxed.add(d.taxed)
	g.VAT.add(d.vat)
	g.OtherTaxes.add(d.otherTaxes)
	g.Perceived.add(d.perceived)
	g.Retained.add(d.retained)
	g.IncomeTax.add(d.incomeTax)
	g.NonTaxed.add(d.nonTaxed)
	g.Purchases.add(d.purchase)
}

// named is a document in resumen.json, and why it is named.
type named struct {
	Code    string `json:"codigoGeneracion"`
	Control string `json:"numeroControl"`
	Type    string `json:"tipo"`
	State   string `json:"estado"`
	Date    string `json:"fecEmi"`
	Total   string `json:"total"`
	Motive  string `json:"motivo"`
}

func (b *Book) count(d *sealed, o order, p *placement) {
	key := groupKey{!strings.HasPrefix(d.Date, b.o.Month), d.Type, d.State}
	g := b.sum.groups[key]
	if g == nil {
		g = &group{Type: d.Type, State: d.State}
		b.sum.groups[key] = g
	}
	g.add(d)
	b.sum.branches[d.Branch]++
	say := func(into *rows, text string) {
		line, _ := json.Marshal(named{d.Code, d.ControlNumber, d.Type, d.State, d.Date, money(d.total), text})
		into.add(o, string(line))
	}
	if p.motive != "" {
		say(&b.sum.nowhere, p.motive)
	}
	for _, note := range p.notes {
		say(&b.sum.noted, note)
	}
}

// FileSum describes a file: its rows, its documents, and the sum of each column.
type FileSum struct {
	Name      string            `json:"archivo"`
	Rows      int               `json:"filas"`
	Documents int               `json:"documentos"`
	Sums      map[string]string `json:"sumas,omitempty"` // as they are declared
	// the sums, less the credit notes that the file has as positive amounts
	Net map[string]string `json:"sumas_netas,omitempty"`
}

// summarise writes resumen.json: the small members, then the named documents, each on a line of its own.
func (b *Book) summarise(out *bufio.Writer) error {
	member := func(name string, v any) error {
		raw, err := json.MarshalIndent(v, "  ", "  ")
		if err == nil {
			_, err = fmt.Fprintf(out, "  %q: %s,\n", name, raw)
		}
		return err
	}
	_, _ = out.WriteString("{\n")
	ambiente := "01"
	if b.test {
		ambiente = "00"
	}
	err := errors.Join(member("mes", b.o.Month), member("hecho", b.o.Made), member("contribuyente",
		map[string]string{"nit": b.issuer.NIT, "nrc": b.issuer.NRC, "nombre": b.issuer.Name}),
		member("ambiente", ambiente), member("sucursales", b.sum.branches), member("ajustes", b.settings.forSummary()),
		member("documentos", b.groups(false)), member("invalidados_de_meses_anteriores", b.groups(true)),
		member("archivos", b.Files()), member("sin_archivo_cantidad", len(b.sum.nowhere)))
	if b.o.Received {
		err = errors.Join(err, member("recibidos", b.received))
	}
	if err == nil {
		err = cmp.Or(listNamed(out, "sin_archivo", b.sum.nowhere, ","), listNamed(out, "avisos", b.sum.noted, ""))
	}
	_, _ = out.WriteString("}\n")
	return err
}

func listNamed(out *bufio.Writer, name string, list rows, end string) error {
	_, _ = fmt.Fprintf(out, "  %q: [", name)
	separator := "\n"
	err := list.each(func(c []string) error {
		_, err := fmt.Fprintf(out, "%s    %s", separator, c[0])
		separator = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	if separator != "\n" {
		_, _ = out.WriteString("\n  ")
	}
	_, err = out.WriteString("]" + end + "\n")
	return err
}

func (b *Book) groups(earlier bool) []*group {
	list := make([]*group, 0)
	for _, key := range slices.SortedFunc(maps.Keys(b.sum.groups), func(x, y groupKey) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.state, y.state))
	}) {
		if key.earlier == earlier {
			list = append(list, b.sum.groups[key])
		}
	}
	return list
}

// Files describes each file of rows.
func (b *Book) Files() []FileSum {
	list := make([]FileSum, 0, len(b.made))
	for _, l := range b.made {
		t := b.files[l]
		f := FileSum{Name: l.Name, Rows: t.rows, Documents: t.documents, Sums: make(map[string]string),
			Net: make(map[string]string)}
		for i, column := range l.sums {
			name := l.Columns[column].Letter + " " + l.Columns[column].Name
			if f.Sums[name] = money(t.sums[i]); l.notesAt > 0 {
				f.Net[name] = money(t.net[i])
			}
		}
		list = append(list, f)
	}
	return list
}

func (s *Settings) forSummary() any {
	return struct {
		*Settings
		Default PurchaseCodes `json:"purchase_default"`
	}{s, goods}
}

// Nowhere returns how many documents are in no file, and how many notes there are on documents in files.
func (b *Book) Nowhere() (documents, notes int) { return len(b.sum.nowhere), len(b.sum.noted) }
