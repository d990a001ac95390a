package tilltest

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCampaign: no customer ever holds a refused document. Random requests, valid, nearly valid and hostile, of every
// type in both generations, online, and in contingency and then forwarded: every 201 is a document that MH accepts, and
// every refusal comes at the counter, with a path of the request. DTE_SOAK plays 20,000; DTE_CAMPAIGN another number,
// DTE_SEED another seed.
func TestCampaign(t *testing.T) {
	requests, seed := 200, uint64(1)
	if os.Getenv("DTE_SOAK") != "" {
		requests = 20_000
	}
	if n, err := strconv.Atoi(os.Getenv("DTE_CAMPAIGN")); err == nil {
		requests = n
	}
	if n, err := strconv.ParseUint(os.Getenv("DTE_SEED"), 10, 64); err == nil {
		seed = n
	}
	for _, day := range []struct {
		name, ambiente string
		begin          time.Time
		returns        bool
	}{
		{"before", "00", time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), false},
		{"DTE 2.0", "00", time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC), true},
	} {
		t.Run(day.name, func(t *testing.T) {
			t.Parallel()
			b := Open(t, day.ambiente, day.begin)
			c := &campaign{t: t, b: b, g: NewGenerator(seed, day.begin.Format(time.DateOnly), day.returns),
				table: make(map[string]*row), next: make(map[string]int)}
			// Two rounds: in the first, without MH, there is nothing to refer to.
			for range 2 {
				c.online(requests / 8)
				c.offline(requests / 8)
			}
			for _, breach := range b.Sim.Audit() {
				t.Errorf("MH noticed: %s", breach)
			}
			c.print()
			if t.Logf("the amounts of %d documents are exact", c.compared); c.compared < requests/20 {
				t.Errorf("%d documents were compared", c.compared)
			}
		})
	}
}

// campaign is the requests to one branch and what became of them.
type campaign struct {
	t        *testing.T
	b        *Branch
	g        *Generator
	table    map[string]*row
	next     map[string]int // the last number of each type
	wait     map[string]asked
	left     string // cursor of what came late
	shown    int
	compared int // documents whose amounts were compared
}

type row struct{ requests, counter, catalogue, refused int }

// asked is a request as it was sent.
type asked struct {
	class, path, tipo string
	body              []byte
	tree              Request
}

// one sends a random request, counts it, and checks its refusal or its number.
func (c *campaign) one() (q asked, a Answer, numbered bool) {
	path, tipo, r := c.g.Valid()
	r = clone(r).(Request)
	class := "valid"
	switch n := c.g.rng.IntN(10); {
	case n >= 7:
		class = "hostile"
		c.g.Spoil(r, 2+c.g.rng.IntN(6))
	case n >= 3:
		class = "nearly valid"
		c.g.Spoil(r, 1)
	}
	body, err := json.Marshal(r)
	if err != nil {
		c.t.Fatal(err)
	}
	q, a = asked{class, path, tipo, body, r}, c.b.Post(path, body)
	row := c.row(q)
	row.requests++
	if a.Status != 201 {
		row.counter++
		c.refused(q, a)
		return q, a, false
	}
	c.numbered(q, a)
	c.exact(q, a)
	return q, a, true
}

func (c *campaign) row(q asked) *row {
	key := q.tipo + " " + q.class
	if c.table[key] == nil {
		c.table[key] = &row{}
	}
	return c.table[key]
}

// online plays n requests while MH answers.
func (c *campaign) online(n int) {
	for range n {
		q, a, numbered := c.one()
		if !numbered {
			continue
		}
		switch a.Estado {
		case "PROCESSED":
			if d, _ := c.b.Sim.Document(a.Code); !d.Accepted {
				c.fail(q, a, "MH does not hold it")
			}
			if q.class != "hostile" || c.g.often(20) {
				c.g.Sealed(a.Code, q.tipo, q.tree)
			}
		case "REJECTED":
			if catalogued.MatchString(a.Rejection) {
				c.row(q).catalogue++
				break
			}
			c.row(q).refused++
			c.fail(q, a, "MH refused it")
		case "CONTINGENCIA":
			if q.tree["testContingencia"] != true {
				c.fail(q, a, "MH answers")
			}
		}
	}
}

// offline plays n requests without MH, then gives it back, and follows every document to its seal.
func (c *campaign) offline(n int) {
	if err := c.b.Engine.Contingency().Declare(c.t.Context(), 3, "sin Internet"); err != nil {
		c.t.Fatal(err)
	}
	c.wait = make(map[string]asked)
	for range n {
		q, a, numbered := c.one()
		if !numbered {
			continue
		}
		if a.Estado != "CONTINGENCIA" {
			c.fail(q, a, "in contingency")
			continue
		}
		c.wait[a.Code] = q
	}
	if err := c.b.Engine.Contingency().Lift(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	for limit := time.Now().Add(5 * time.Minute); len(c.wait) > 0; {
		var late struct {
			Data struct {
				Cambios   []struct{ CodigoGeneracion, Estado, DescripcionMsg string }
				Siguiente string
			}
		}
		a := c.b.Get("cambios?wait=20&desde=" + c.left)
		if err := json.Unmarshal(a.Body, &late); err != nil {
			c.t.Fatal(err)
		}
		c.left = late.Data.Siguiente
		for _, d := range late.Data.Cambios {
			q, mine := c.wait[d.CodigoGeneracion]
			if !mine {
				continue
			}
			delete(c.wait, d.CodigoGeneracion)
			if d.Estado != "PROCESSED" {
				c.row(q).refused++
				c.fail(q, Answer{Status: 201, Estado: d.Estado, Rejection: d.DescripcionMsg},
					"MH refused it after the customer had it")
			}
		}
		if time.Now().After(limit) {
			c.t.Fatalf("%d documents are not forwarded", len(c.wait))
		}
	}
}

// numbered checks that a document has the number after its series' last: a refusal spends none.
func (c *campaign) numbered(q asked, a Answer) {
	n, err := strconv.Atoi(a.Sequence)
	if err != nil || n != c.next[q.tipo]+1 {
		c.fail(q, a, fmt.Sprintf("its number is %q, the last was %d", a.Sequence, c.next[q.tipo]))
	}
	c.next[q.tipo] = n
}

// catalogued are MH's refusals for values of catalogues, whose check SPEC leaves to MH (SPEC 2.7).
var catalogued = regexp.MustCompile(
	`^\[(resumen\.pagos\.(codigo|plazo)|cuerpoDocumento\.(uniMedida|tipoDte)|(receptor|sujetoExcluido|documento)\.(codActividad|tipoDocumento|direccion\.(departamento|municipio|distrito)))\] VALOR NO ES PERMITIDO$`)

// refused checks a refusal at the counter: 400 with paths of the request, or what SPEC says of an original.
func (c *campaign) refused(q asked, a Answer) {
	switch {
	case a.Status == 404 && a.Type == "DOCUMENT_NOT_FOUND", a.Status == 409 && a.Type == "DOCUMENT_NOT_PROCESSED":
		return
	case a.Status != 400:
		c.fail(q, a, "is no 400")
		return
	case len(a.Faults) == 0:
		c.fail(q, a, "names no path")
	}
	if q.class == "valid" && !slices.Contains(expected, a.Faults[0].Code) && !slices.Contains(expected, a.Type) &&
		!unlucky.MatchString(a.Faults[0].Path) {
		c.fail(q, a, "is refused, and looks valid")
	}
	for _, f := range a.Faults {
		if !within(q.tree, f.Path) {
			c.fail(q, a, "the request has no "+f.Path)
		}
	}
}

// expected are the refusals that the generator of valid requests does not avoid: they depend on sums.
var expected = []string{"DISCOUNT_ABOVE_LINE", "GLOBAL_DISCOUNT_ABOVE_TOTAL", "NOTHING_SOLD", "RECEPTOR_NOT_IDENTIFIED",
	"CREDIT_ABOVE_ORIGINAL",
	"OVER_RETURN_ERROR", "INVALID_ORIGIN_STATUS", "NO_GRAVADO_NOT_TAKEN", "RETURN_WHOLE_LINE", "NOTHING_RETURNED",
	"RETURN_DISCOUNTED_TAX", "CATALOGUE"}

// unlucky are paths that layouts before DTE 2.0 refuse for some sums: a consumer without a name from 1,095.00 on, taxes
// on a line of 0.00, a total of 0.00.
var unlucky = regexp.MustCompile(`^(receptor\.nombre|items\[\d+\]\.tributos|items|condicionOperacion)$`)

var steps = regexp.MustCompile(`[^.\[\]]+`)

// within tells whether a path belongs to the request: it is there, or could be.
func within(r any, path string) bool {
	for _, step := range steps.FindAllString(path, -1) {
		if i, err := strconv.Atoi(step); err == nil {
			list, ok := r.([]any)
			if !ok || i >= len(list) {
				return false
			}
			r = list[i]
			continue
		}
		object, ok := r.(Request)
		v, has := object[step]
		if !ok && r != nil || !has && !slices.Contains(extra, step) {
			return false
		}
		r = v
	}
	return path != ""
}

// maxShown bounds what a failing campaign prints.
const maxShown = 40

func (c *campaign) fail(q asked, a Answer, why string) {
	c.t.Helper()
	c.shown++
	if c.shown <= maxShown {
		c.t.Errorf("%s: %s %s: %v\n%s\n%s", why, q.class, q.path, a, q.body, a.Document)
	}
}

// print shows the table: requests by class, refused at the counter, refused by MH.
func (c *campaign) print() {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %9s %9s %10s %9s\n", "type, class", "requests", "counter", "catalogue", "MH")
	var keys []string
	for key := range c.table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var all row
	line := func(name string, r row) {
		fmt.Fprintf(&b, "%-18s %9d %9d %10d %9d\n", name, r.requests, r.counter, r.catalogue, r.refused)
	}
	for _, key := range keys {
		r := *c.table[key]
		line(key, r)
		all = row{all.requests + r.requests, all.counter + r.counter, all.catalogue + r.catalogue, all.refused +
			r.refused}
	}
	line("all", all)
	c.t.Log("\n" + b.String())
}
