package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/cmd/dtesim/simulator/registry"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// giving is a branch whose tills sell, and give back what they sold: honestly, in any split, or more than was sold.
type giving struct {
	*enginetest.Box
	rand *rand.Rand
	sold []*original
	n    int
	done map[string]int
}

// original is a document of which tills give back. Its amounts are those of its signed JSON.
type original struct {
	document, code  string
	lines, resumen  dte.Value
	customer, named string // see customerOf
	given           []*given
	greedy          bool // somebody took or added more than a part of its lines
}

// given is a note or a return; parts are the quantities that it gives back, by line.
type given struct {
	document, code string
	parts          map[int]dte.Amount
}

// TestGivenBack plays sales of every kind of line, and then notes, returns and invalidations of them in any order,
// several at once, in contingency and through power cuts. Tills name any customer, then or now: what is given back is for
// the customer that the sale's signed bytes name. The simulator reads MH's law on its own: it refuses no document that the
// box signs. The box refuses nothing that gives back a part of what is left. At the end the rest of
// every invoice and purchase comes back, and all returns together are what was charged, to the cent.
func TestGivenBack(t *testing.T) {
	enginetest.MonthsToPlay(t, 3, 1, 60).Each(t, func(t *testing.T, seed uint64, _ time.Duration) {
		playGiving(t, seed, nil)
	})
}

// TestGivenBack_Rogue: the rule of the returns keeps a tenth of what was paid, as a discount. No such return is signed.
func TestGivenBack_Rogue(t *testing.T) {
	root, dir := plugintest.Root(t), t.TempDir()
	source, err := os.ReadFile(root + "/plugins/retorno/line.go")
	if err != nil {
		t.Fatal(err)
	}
	const honest = "	result[outNoGravado] = back("
	rogue := strings.Replace(string(source), honest, `	if off := back(paid) / 10; off > 2*cent {
		result[outMonto+kind], result[outDescuento] = result[outMonto+kind]-off, result[outDescuento]+off
	}
`+honest, 1)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		root + "/plugins/retorno/line.go": dir + "/line.go"}})
	if err == nil {
		err = errors.Join(os.WriteFile(dir+"/line.go", []byte(rogue), 0o600),
			os.WriteFile(dir+"/o.json", overlay, 0o600))
	}
	t.Setenv("GOFLAGS", "-overlay="+dir+"/o.json")
	if err == nil {
		err = plugins.Compile(t.Context(), root, "retorno", dir+"/module.wasm")
	}
	var module []byte
	if err == nil {
		module, err = os.ReadFile(dir + "/module.wasm")
	}
	if err != nil || rogue == string(source) {
		t.Fatal("no rogue rule", err)
	}
	b, err := bundle.Keys{Pinned: []bundle.Key{plugintest.Key()}}.Read(bundletest.Edition(t, "retorno/v1", "9.0.0",
		func(parts map[string][]byte, _ *bundle.Manifest) { parts["module.wasm"] = module }))
	if err != nil {
		t.Fatal(err)
	}
	rule, err := plugintest.Host(t, "compiler").LoadBundle(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	playGiving(t, 1, bookWith(t, enginetest.Common(t).Book, rule))
}

func playGiving(t *testing.T, seed uint64, rogue *rulestore.Book) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		if b.Every = 5 * time.Minute; rogue != nil {
			b.Close()
			b.Book = rogue
			b.Start()
		}
		g := &giving{Box: b, rand: rand.New(rand.NewPCG(seed, 61)), done: map[string]int{}}
		b.Rand = g.rand
		g.weather(simulator.Chaos{})
		for range 150 {
			g.step()
		}
		g.calm()
		g.giveRest()
		for _, o := range g.sold {
			g.check(o)
		}
		b.Audit()
		if t.Log(g.done); rogue != nil && g.done["rogue"] == 0 {
			t.Error("the rogue rule was not noticed")
		}
	})
}

func (g *giving) weather(c simulator.Chaos) {
	c.LaxOrigins = true
	g.Chaos(c)
}

func (g *giving) calm() {
	g.Cable.Set(enginetest.Plugged)
	g.weather(simulator.Chaos{})
	time.Sleep(26 * time.Hour)
}

func (g *giving) step() {
	switch n := g.rand.IntN(40); {
	case n == 0:
		g.Crash()
	case n == 1:
		g.Cable.Set(enginetest.Refusing)
	case n < 4:
		g.Cable.Set(enginetest.Plugged)
		time.Sleep(20 * time.Minute)
	case n == 4:
		g.weather([]simulator.Chaos{{Reject: 1}, {LostAnswers: 1}, {ServerErrors: 3}}[g.rand.IntN(3)])
		defer func() { g.weather(simulator.Chaos{}) }()
		g.sell()
	case n < 13 || len(g.sold) == 0:
		g.sell()
	case n < 15:
		g.atOnce(g.sold[g.rand.IntN(len(g.sold))])
	case n < 18:
		g.invalidate(g.sold[g.rand.IntN(len(g.sold))])
	default:
		g.giveBack(g.sold[g.rand.IntN(len(g.sold))])
	}
}

// money returns an amount in cents below most.
func (g *giving) money(most int64) dte.Amount {
	return dte.Amount(1+g.rand.Int64N(most)) * dte.Scale / 100
}

func (g *giving) one(of ...string) string { return of[g.rand.IntN(len(of))] }

func text(name, value string) dte.Member { return enginetest.Member(name, dte.Str(value)) }

func num(name string, a dte.Amount) dte.Member { return enginetest.Member(name, dte.Num(a)) }

func taxes(codes ...string) dte.Member {
	list := make([]dte.Value, len(codes))
	for i, c := range codes {
		list[i] = dte.Str(c)
	}
	return enginetest.Member("tributos", dte.Arr(list...))
}

var classes = []string{"GRAVADO", "EXENTO", "NO_SUJETO"}

// line makes a line of a sale. The first line of a sale is of goods.
func (g *giving) line(document string, i int) dte.Value {
	price := g.money(9000)
	if document == "03" && g.rand.IntN(2) == 0 {
		price = price * 100 / 113 // a price without VAT has eight decimals
	}
	quantity := g.one("1", "2", "3", "7", "0.5", "2.75", "12.345")
	item := enginetest.Item(int64(i+1), quantity, price.String())
	kind := g.rand.IntN(8)
	if document == "14" {
		kind = 7
	}
	vat := slices.Repeat([]string{"20"}, map[string]int{"03": 1}[document])
	switch {
	case i == 0 || kind > 4:
		item = item.Set(text("tipoImpuesto", g.one("GRAVADO", "GRAVADO", "EXENTO", "NO_SUJETO")))
		if document == "14" {
			item = item.Set(text("tipoImpuesto", ""))
		}
	case kind == 0:
		item = item.Set(enginetest.Member("uniMedida", dte.Int(22)), taxes(append(vat, "D1", "C8")...))
	case kind == 1:
		item = item.Set(taxes(append(vat, g.one("59", "71"))...))
	case kind == 2:
		return enginetest.Item(int64(i+1), "1", price.String()).Set(enginetest.Member("tipoItem", dte.Int(4)),
			text("codTributo", "A8"), enginetest.Member("uniMedida", dte.Int(99)))
	default:
		charge := g.money(2500)
		if kind == 4 {
			charge = -charge / 10 / (dte.Scale / 100) * (dte.Scale / 100)
		}
		return enginetest.Item(int64(i+1), "1", "0").Set(enginetest.Member("uniMedida", dte.Int(99)), num("noGravado",
			charge))
	}
	if g.rand.IntN(3) == 0 {
		q, _ := dte.ParseAmount(quantity)
		item = item.Set(num("montoDescu", part(price, q, dte.Scale*10).Round2()))
	}
	return item
}

// part returns whole × of ÷ all, rounded to eight decimals.
func part(whole, of, all dte.Amount) dte.Amount {
	if all == 0 {
		return 0
	}
	n := new(big.Int).Mul(big.NewInt(int64(whole)), big.NewInt(2*int64(of)))
	n.Add(n, big.NewInt(int64(all)))
	return dte.Amount(n.Div(n, big.NewInt(2*int64(all))).Int64())
}

func (g *giving) sell() {
	document := g.one("03", "03", "01", "01", "14")
	lines := make([]dte.Value, 1+g.rand.IntN(5))
	for i := range lines {
		lines[i] = g.line(document, i)
	}
	g.n++
	key := fmt.Sprint("sale ", g.n)
	req := enginetest.Invoice(key, lines...)
	switch document {
	case "03":
		req = enginetest.Voucher(key, lines...)
		req.Facts = req.Facts.Set([]dte.Member{enginetest.Member("isRetenIva", dte.Bool(true)),
			enginetest.Member("isPerciIva", dte.Bool(true)), {Name: "x", Value: dte.Null()}}[g.rand.IntN(3)])
	case "14":
		req = enginetest.Request("14", key, enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(g.rand.IntN(2) == 0)),
			enginetest.Member("cuerpoDocumento", dte.Arr(lines...)), enginetest.Cash())
	default:
		req.Facts = req.Facts.Set(enginetest.Member("isRetenIva", dte.Bool(g.rand.IntN(3) == 0)))
	}
	if document != "01" || g.rand.IntN(2) == 0 {
		req.Facts = req.Facts.With("receptor", g.party(4))
	}
	if g.rand.IntN(2) == 0 {
		var off []dte.Member
		for _, kind := range [...]string{"gravada", "exenta", "noSujeta", "compra"} {
			if (kind == "compra") == (document == "14") && g.rand.IntN(2) == 0 {
				off = append(off, num(kind, g.money(300)))
			}
		}
		req.Facts = req.Facts.Set(enginetest.Member("descuentoGlobal", dte.Obj(off...)))
	}
	r, err := g.Engine.Issue(context.Background(), req)
	if err != nil {
		var e *refusal.Error
		if !errors.As(err, &e) || e.Code != refusal.CodeValidation {
			g.T.Errorf("a sale: %v", err)
		}
		if len(e.Faults) > 0 {
			g.done["sale refused "+e.Faults[0].Code]++
		}
		return
	}
	v, err := dte.Parse(r.JSON)
	if err != nil {
		g.T.Fatal(err)
	}
	g.done[document]++
	o := &original{document: document, code: r.Code, lines: v.Get("cuerpoDocumento"), resumen: v.Get("resumen")}
	o.customer, o.named = customerOf(v)
	g.sold = append(g.sold, o)
}

// party returns a customer as a careless or dishonest till names it: about one in n of its members is absent, null or
// somebody else's.
func (g *giving) party(n int) dte.Value {
	p := enginetest.Taxpayer
	for _, m := range dte.Texts("numDocumento", "012345678", "nit", "06142803901121", "nrc", "1234567", "nombre",
		"Otra persona", "codActividad", "47111").Members() {
		switch g.rand.IntN(3 * n) {
		case 0:
			p = p.Set(m)
		case 1:
			p = p.With(m.Name, dte.Null())
		case 2:
			p = dte.Obj(slices.DeleteFunc(slices.Clone(p.Members()), func(o dte.Member) bool { return o.Name == m.Name })...)
		}
	}
	kind := map[string]string{"06140202801028": "36", "012345678": "13"}[p.Get("numDocumento").Text()]
	return p.With("tipoDocumento", dte.Text(kind)) // the gateway lets no number pass without its kind
}

// customerOf returns the number and the NRC of the customer that a document's bytes name.
func customerOf(document dte.Value) (number, nrc string) {
	p := record.Party(document)
	if number = p.Get("tipoDocumento").Text() + " " + p.Get("numDocumento").Text(); p.Get("nit").Present() {
		number = "36 " + p.Get("nit").Text()
	}
	return number, p.Get("nrc").Text()
}

// stands reports whether a document is in force: neither refused nor invalidated.
func (g *giving) stands(code string) bool {
	estado := g.Document(code).Estado
	return estado != record.EstadoRejected && estado != record.EstadoInvalidated
}

// open reports whether something may be given back of a document.
func open(r *record.View) bool {
	return r.Estado == record.EstadoProcessed && !r.Invalidation.Pending()
}

// back returns the quantity of a line that came back.
func (g *giving) back(o *original, line int) (sum dte.Amount) {
	for _, n := range o.given {
		if n.parts[line] != 0 && g.stands(n.code) {
			sum += n.parts[line]
		}
	}
	return sum
}

func (g *giving) giveBack(o *original) {
	document := map[string]string{"01": "18", "14": "18", "03": "05"}[o.document]
	parts := make(map[int]dte.Amount)
	for i := range o.lines.Len() {
		rest := engine.AmountOf(o.lines.Index(i), "cantidad") - g.back(o, i)
		if rest == 0 || g.rand.IntN(2) == 0 {
			continue
		}
		if parts[i] = rest; !whole(o.lines.Index(i)) && g.rand.IntN(3) > 0 {
			parts[i] = max(1_000_000, rest*dte.Amount(1+g.rand.Int64N(9))/10/1_000_000*1_000_000)
			parts[i] = min(parts[i], rest)
		}
	}
	greedy := g.rand.IntN(3) == 0
	switch {
	case greedy && document == "05":
		g.note(o, g.one("05", "05", "06"), parts, true)
	case greedy && document == "18" && o.document == "01" && g.rand.IntN(2) == 0:
		g.note(o, g.one("05", "06"), parts, true)
	case greedy:
		i := g.rand.IntN(o.lines.Len())
		parts = map[int]dte.Amount{i: engine.AmountOf(o.lines.Index(i), "cantidad") - g.back(o, i) + g.money(100)}
		g.takeBack(o, parts, true)
	case document == "05":
		g.note(o, "05", parts, false)
	default:
		g.takeBack(o, parts, false)
	}
}

// whole reports whether a line comes back as a whole or not at all.
func whole(line dte.Value) bool {
	return line.Get("codTributo").Present() || engine.AmountOf(line, "noGravado") != 0
}

// sales returns a line's amount, and the names of its total and of its global discount.
func sales(line dte.Value) (amount dte.Amount, class, total, discount string) {
	for _, c := range [...][4]string{{"GRAVADO", "ventaGravada", "totalGravada", "descuGravada"},
		{"EXENTO", "ventaExenta", "totalExenta", "descuExenta"}, {"NO_SUJETO", "ventaNoSuj", "totalNoSuj", "descuNoSuj"},
		{"", "compra", "totalCompra", "descu"}} {
		if amount = engine.AmountOf(line, c[1]); amount != 0 {
			return amount, c[0], c[2], c[3]
		}
	}
	return 0, "GRAVADO", "totalGravada", "descuGravada"
}

// noteLine makes the line of a note that gives a part of a line back at its price, less its discounts (MF2 p.48).
func noteLine(o *original, number int, line dte.Value, before, now dte.Amount) (item dte.Value, amount dte.Amount) {
	sold, class, total, discount := sales(line)
	price, all := engine.AmountOf(line, "precioUni"), engine.AmountOf(line, "cantidad")
	share := part(sold, engine.AmountOf(o.resumen, discount), engine.AmountOf(o.resumen, total))
	if line.Get("codTributo").Present() {
		price, share = price-share, 0
	}
	off := func(quantity dte.Amount) dte.Amount {
		return part(engine.AmountOf(line, "montoDescu")+share, quantity, all)
	}
	gross := part(price, now, dte.Scale)
	less := min(gross, off(before+now)-off(before))
	item = enginetest.Item(int64(number), now.String(), price.String()).Set(text("tipoImpuesto", class),
		num("montoDescu", less))
	for _, name := range [...]string{"tipoItem", "uniMedida", "codTributo", "tributos", "noGravado"} {
		if v := line.Get(name); v.Present() && (name != "noGravado" || engine.AmountOf(line, name) != 0) {
			item = item.With(name, v)
		}
	}
	if item.Get("noGravado").Present() || line.Get("codTributo").Present() {
		item = item.With("montoDescu", dte.Int(0))
	}
	return item, gross - less
}

// note issues a note of parts of an original. A greedy note may contain anything.
func (g *giving) note(o *original, document string, parts map[int]dte.Amount, greedy bool) {
	var items []dte.Value
	sums := make(map[string]dte.Amount)
	sold := false
	for i := range o.lines.Len() {
		if parts[i] == 0 {
			continue
		}
		line := o.lines.Index(i)
		item, amount := noteLine(o, len(items)+1, line, g.back(o, i), parts[i])
		_, _, total, _ := sales(line)
		sums[total] += amount
		sold = sold || amount > 0
		if greedy {
			item = g.exaggerated(item)
		}
		items = append(items, item)
	}
	if !sold {
		return
	}
	g.n++
	req := enginetest.NoteOn(document, fmt.Sprint("note ", g.n), &record.View{Code: o.code}, items...)
	honest := g.rand.IntN(2) == 0
	if !honest || o.document == "01" {
		req.Facts = req.Facts.With("receptor", g.party(6))
	}
	before := g.Document(o.code)
	r, err := g.Engine.Issue(context.Background(), req)
	if greedy {
		g.keep(o, document, r, err, nil, true)
		return
	}
	room := true
	for total, sum := range sums {
		room = room && sum.Round2() <= g.left(o, total)
	}
	g.keep(o, document, r, err, parts, honest && !o.greedy && room && open(before))
}

// left returns what the notes of a voucher leave of a total.
func (g *giving) left(o *original, total string) dte.Amount {
	_, off, _ := strings.Cut(total, "total")
	left := engine.AmountOf(o.resumen, total) - engine.AmountOf(o.resumen, "descu"+off)
	for _, n := range o.given {
		if g.stands(n.code) {
			v, err := dte.Parse(g.Document(n.code).JSON)
			if err != nil {
				g.T.Fatal(err)
			}
			left -= engine.AmountOf(v.Get("resumen"), total)
		}
	}
	return left
}

// exaggerated changes a line of a note as a careless or dishonest till does.
func (g *giving) exaggerated(item dte.Value) dte.Value {
	switch g.rand.IntN(6) {
	case 0:
		return item.Set(text("tipoImpuesto", classes[g.rand.IntN(3)]))
	case 1:
		return item.Set(enginetest.Member("uniMedida", dte.Int(22)), taxes("20", "D1"))
	case 2:
		return item.Set(taxes("20", g.one("59", "71")))
	case 3:
		if item.Get("noGravado").Present() {
			return item.Set(num("noGravado", g.money(5000)))
		}
		return item.Set(num("cantidad", g.money(2000)), num("montoDescu", 0))
	case 4:
		return enginetest.Item(1, "1", "0").Set(enginetest.Member("numItem", item.Get("numItem")),
			enginetest.Member("uniMedida", dte.Int(99)), num("noGravado", g.money(5000)))
	}
	return item
}

// keep notes what became of a request to give back. want: it gives back a part of what is left, and must be made.
func (g *giving) keep(o *original, document string, r *record.View, err error, parts map[int]dte.Amount, want bool) {
	var e *refusal.Error
	switch {
	case g.Book != nil && errors.As(err, &e) && e.Code == refusal.CodeRuleFailed && strings.Contains(e.Error(),
		"which the sale does not say"):
		g.done["rogue"]++
	case err == nil:
		o.given = append(o.given, &given{document, r.Code, parts})
		o.greedy = o.greedy || parts == nil
		g.done[document]++
	case !errors.As(err, &e) || e.Code == refusal.CodeInternal || e.Code == refusal.CodeRuleFailed:
		g.T.Errorf("%s on %s: %v", document, o.document, err)
	case want && parts != nil:
		g.T.Errorf("%s on %s was refused: %v %v\nof %s\n%s", document, o.document, parts, e, o.lines.Append(nil),
			o.resumen.Append(nil))
	default:
		g.done[document+" refused "+cmp.Or(e.Code, "?")]++
	}
}

// takeBack issues a return.
func (g *giving) takeBack(o *original, parts map[int]dte.Amount, greedy bool) {
	var items []dte.Value
	sold, taxed := false, false
	for i := range o.lines.Len() {
		if line := o.lines.Index(i); parts[i] != 0 {
			amount, _, _, discount := sales(line)
			sold = sold || part(amount, parts[i], engine.AmountOf(line, "cantidad")) > 0
			taxed = taxed || line.Get("codTributo").Present() && engine.AmountOf(o.resumen, discount) != 0
			items = append(items, enginetest.Back(int64(i+1), parts[i].String()))
		}
	}
	if len(items) == 0 {
		return
	}
	g.n++
	before := g.Document(o.code)
	r, err := g.Engine.Issue(context.Background(), enginetest.ReturnOf(fmt.Sprint("return ", g.n), &record.View{
		Code: o.code}, items...))
	if greedy && err == nil {
		g.T.Errorf("more than was sold came back: %v", parts)
	}
	g.keep(o, "18", r, err, parts, !greedy && !o.greedy && sold && !taxed && open(before))
}

// atOnce has tills give the same back twice, and invalidate its original, at one moment. Returns are counted by line,
// notes by amount: a voucher of several lines may bear both notes.
func (g *giving) atOnce(o *original) {
	line := o.lines.Index(0)
	rest := engine.AmountOf(line, "cantidad") - g.back(o, 0)
	if rest == 0 {
		return
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	back := g.back(o, 0)
	o.greedy = o.greedy || o.document == "03"
	for i := range 2 {
		g.n++
		req, document := enginetest.ReturnOf(fmt.Sprint("at once ", g.n), &record.View{Code: o.code}, enginetest.Back(1,
			rest.String())), "18"
		if o.document == "03" {
			item, _ := noteLine(o, 1, line, back, rest)
			req, document = enginetest.NoteOn("05", fmt.Sprint("at once ", g.n), &record.View{Code: o.code}, item), "05"
		}
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Nanosecond)
			r, err := g.Engine.Issue(context.Background(), req)
			mu.Lock()
			defer mu.Unlock()
			g.keep(o, document, r, err, map[int]dte.Amount{0: rest}, false)
		})
	}
	if g.rand.IntN(2) == 0 {
		wg.Go(func() {
			_, err := g.Engine.Invalidate(context.Background(), enginetest.Invalidation(&record.View{Code: o.code}, 2, ""))
			mu.Lock()
			defer mu.Unlock()
			g.done[fmt.Sprint("invalidated at once ", err == nil)]++
		})
	}
	wg.Wait()
}

// invalidate invalidates something that was given back, or else the original.
func (g *giving) invalidate(o *original) {
	code, what := o.code, o.document
	if len(o.given) > 0 && g.rand.IntN(6) > 0 {
		n := o.given[g.rand.IntN(len(o.given))]
		code, what = n.code, n.document
	}
	held := code == o.code && slices.ContainsFunc(o.given, func(n *given) bool { return g.stands(n.code) })
	v, err := g.Engine.Invalidate(context.Background(), enginetest.Invalidation(&record.View{Code: code}, 2, ""))
	if held && err == nil && v.Estado == record.EstadoInvalidated {
		g.T.Errorf("%s was invalidated while something given back of it is in force", code)
	}
	g.done[fmt.Sprint("invalidated ", what, " ", err == nil)]++
}

// giveRest gives the rest of every original back.
func (g *giving) giveRest() {
	for _, o := range g.sold {
		if !open(g.Document(o.code)) || o.greedy {
			continue
		}
		parts := make(map[int]dte.Amount)
		for i := range o.lines.Len() {
			if rest := engine.AmountOf(o.lines.Index(i), "cantidad") - g.back(o, i); rest > 0 {
				parts[i] = rest
			}
		}
		if o.document == "03" {
			g.note(o, "05", parts, false)
			g.noteRest(o)
			continue
		}
		g.takeBack(o, parts, false)
	}
}

// noteRest gives the rest of a voucher's amounts back, which its notes' rounding leaves or made too small for a part.
func (g *giving) noteRest(o *original) {
	var items []dte.Value
	for i, total := range [...]string{"totalGravada", "totalExenta", "totalNoSuj"} {
		if left := g.left(o, total); left > 0 {
			items = append(items, enginetest.Item(int64(len(items)+1), "1", left.String()).Set(text("tipoImpuesto",
				classes[i])))
		}
	}
	if len(items) == 0 {
		return
	}
	g.n++
	r, err := g.Engine.Issue(context.Background(), enginetest.NoteOn("05", fmt.Sprint("rest ", g.n), &record.View{
		Code: o.code}, items...))
	if err != nil || r.Estado != record.EstadoProcessed {
		g.T.Errorf("the rest of a voucher: %+v, %v", r, err)
		return
	}
	g.keep(o, "05", r, err, map[int]dte.Amount{}, true)
	g.done["rest of 03"]++
}

// check compares what came back of an original with what was charged.
func (g *giving) check(o *original) {
	for _, n := range append([]*given{{o.document, o.code, nil}}, o.given...) {
		r := g.Document(n.code)
		v, err := dte.Parse(r.JSON)
		if err != nil {
			g.T.Fatal(err)
		}
		if number, nrc := customerOf(v); o.customer != " " && (number != o.customer || record.Party(v).Get("nrc").Exists() &&
			nrc != o.named) {
			g.T.Errorf("a %s on a %s is for %s, %s, want %s, %s", n.document, o.document, number, nrc, o.customer, o.named)
		}
		if r.Estado == record.EstadoRejected && !slices.Contains(r.Response.Observaciones,
			registry.Provoked) {
			g.T.Errorf("MH refused a %s on a %s: %+v\n%s\n%s", n.document, o.document, r.Response, r.JSON,
				g.Document(o.code).JSON)
		}
	}
	sums, complete := make(map[string]dte.Amount), o.document != "03" && !o.greedy
	for i := range o.lines.Len() {
		complete = complete && g.back(o, i) == engine.AmountOf(o.lines.Index(i), "cantidad")
	}
	if !complete || g.Document(o.code).Estado != record.EstadoProcessed {
		return
	}
	g.done["all back of "+o.document]++
	// What another return made room for is rounded anew. An event of several classes rounds only one of them to the rest.
	events, gone := dte.Amount(0), dte.Amount(-1)
	for _, total := range [...]string{"totalGravada", "totalExenta", "totalNoSuj", "totalCompra"} {
		if engine.AmountOf(o.resumen, total) != 0 {
			gone++
		}
	}
	for _, n := range o.given {
		if gone++; g.stands(n.code) {
			gone--
			v, err := dte.Parse(g.Document(n.code).JSON)
			if err != nil {
				g.T.Fatal(err)
			}
			events++
			add(sums, v.Get("resumen"), -1)
		}
	}
	add(sums, o.resumen, 1)
	for name, left := range sums {
		if off := max(left, -left); off > gone*dte.Scale/100 && (len(name) > 2 || off > (events+1)*dte.Scale/200) {
			g.T.Errorf("of a %s %s of %s is left in %d returns: %s %s", o.document, left, name, events, o.lines.Append(nil),
				o.resumen.Append(nil))
		}
	}
}

// add adds the totals of a summary to sums: each tax by its code, and the totals less the global discounts.
func add(sums map[string]dte.Amount, resumen dte.Value, sign dte.Amount) {
	for _, t := range resumen.Get("tributos").Items() {
		sums[t.Get("codigo").Text()] += sign * engine.AmountOf(t, "valor")
	}
	for name, off := range map[string]string{"totalGravada": "descuGravada", "totalExenta": "descuExenta",
		"totalNoSuj": "descuNoSuj", "totalCompra": "descu", "totalIva": "", "ivaRete": "", "reteRenta": "",
		"totalNoGravado": ""} {
		sums[name] += sign * (engine.AmountOf(resumen, name) - engine.AmountOf(resumen, off))
	}
	sums["totalCompra"] += sign * engine.AmountOf(resumen, "totalCompraExcluidos")
}
