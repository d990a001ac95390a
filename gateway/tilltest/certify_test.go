package tilltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/certify"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
	"dtegate/gateway/tilltest"
)

// branch is a branch in the test ambiente, whose requirements the test may lower.
type branch struct {
	*tilltest.Branch
	t      *testing.T
	tally  *documents.Tally
	wanted map[string]int // instead of MH's
}

var opened = time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)

func open(t *testing.T) *branch {
	b := &branch{Branch: tilltest.Open(t, "00", opened), t: t}
	b.tally = documents.NewTally(b.Engine.Documents(), 1, b.Now)
	return b
}

// status is what /status of an appliance says, as JSON.
func (b *branch) status(ctx context.Context) (*adminclient.Status, error) {
	a, err := b.tally.Count(ctx)
	if err != nil {
		return nil, err
	}
	for i := range a.Kinds {
		if b.wanted != nil {
			a.Kinds[i].Wanted = b.wanted[a.Kinds[i].Kind]
		}
	}
	text, err := json.Marshal(map[string]any{"ambiente": "00", "owed": b.Engine.CountBacklog(), "authorisation": a})
	if err != nil {
		return nil, err
	}
	s := new(adminclient.Status)
	return s, json.Unmarshal(text, s)
}

func (b *branch) options() certify.Options {
	return certify.Options{URL: b.URL, Token: tilltest.Token, Client: &http.Client{Transport: &http.Transport{}},
		Status: b.status, Seed: 7,
		Responsible: certify.Person{Name: "María López", DocumentType: "13", Document: "012345678"},
		Patience:    time.Minute, Now: b.Now, Show: func(int, int, string) {}}
}

func (b *branch) chaos(c simulator.Chaos) {
	b.t.Helper()
	if err := b.Sim.Chaos(c); err != nil {
		b.t.Fatal(err)
	}
}

// minimum is what MH wants of each kind, or about a fifteenth of it; then of events only one: a second would come due
// after so few sales that the certification would rightly make one too many.
func minimum(all bool) map[string]int {
	wanted := map[string]int{}
	for _, r := range documents.Requirements() {
		wanted[r.Kind] = r.Wanted
		if !all {
			wanted[r.Kind] = max(2, r.Wanted/15)
		}
	}
	if !all {
		wanted["contingencia"] = 1
	}
	return wanted
}

// holds checks that MH has sealed exactly what is wanted.
func (b *branch) holds(wanted map[string]int) {
	b.t.Helper()
	types := maps.Clone(wanted)
	delete(types, "invalidacion")
	delete(types, "contingencia")
	if got := b.Sim.Types(); !maps.Equal(got, types) {
		b.t.Errorf("MH sealed %v, want %v", got, types)
	}
	if got := b.Sim.Received(); got.Invalidations != wanted["invalidacion"] || got.Events != wanted["contingencia"] ||
		got.Duplicates != 0 {
		b.t.Errorf("MH received %+v", got)
	}
	for _, breach := range b.Sim.Audit() {
		b.t.Errorf("MH noticed: %s", breach)
	}
}

// killed ends a run for good after so many sendings, while the last is under way: nobody hears its answer.
type killed struct {
	next     http.RoundTripper
	left     atomic.Int64
	after    context.CancelFunc
	underWay *sync.WaitGroup
}

func (k *killed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || k.left.Add(-1) != 0 {
		return k.next.RoundTrip(req)
	}
	k.underWay.Go(func() {
		if resp, err := k.next.RoundTrip(req.Clone(context.Background())); err == nil {
			_ = resp.Body.Close()
		}
	})
	k.after()
	return nil, errors.New("killed")
}

// TestCertify: MH seals what it wants of every kind and no document more, though the run is killed again and again with
// a sale under way, and MH refuses nothing: all 315 documents and 15 events, or about a fifteenth of them with -short.
func TestCertify(t *testing.T) {
	b := open(t)
	b.wanted = minimum(!testing.Short())
	began, runs := time.Now(), 0
	var underWay sync.WaitGroup
	for each := int64(7); ; each += each / 2 {
		ctx, cancel := context.WithCancel(context.Background())
		o := b.options()
		k := &killed{next: o.Client.Transport, after: cancel, underWay: &underWay}
		k.left.Store(each)
		defer o.Client.CloseIdleConnections()
		defer k.next.(*http.Transport).CloseIdleConnections()
		o.Client.Transport = k
		report, err := certify.New(o).Run(ctx)
		cancel()
		if runs++; err == nil {
			if !report.Complete || len(report.Refusals) > 0 || len(report.Stopped) > 0 {
				t.Errorf("%+v", report)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("run %d: %v; %+v", runs, err, report)
		}
	}
	underWay.Wait()
	b.holds(b.wanted)
	t.Logf("%d documents in %v and %d runs", b.Sim.Received().Documents, time.Since(began).Round(time.Millisecond),
		runs)

	// Once it is done there is nothing left to do.
	if report, err := certify.New(b.options()).Run(t.Context()); err != nil || !report.Complete {
		t.Errorf("%+v %v", report, err)
	}
	b.holds(b.wanted)
}

// TestCertify_EarlierDeferred: the next run makes no event of its own while the sale of a killed run waits for one, even
// if /status, which counts what the branch owes every two seconds, does not know that sale yet.
func TestCertify_EarlierDeferred(t *testing.T) {
	b := open(t)
	b.wanted = map[string]int{"01": 1, "contingencia": 1}
	if report, err := certify.New(b.options()).Run(t.Context()); err != nil {
		t.Fatal(report, err)
	}
	b.wanted["01"] = 3
	o, looks := b.options(), 0
	o.Status = func(ctx context.Context) (*adminclient.Status, error) {
		s, err := b.status(ctx)
		if looks++; looks <= 2 && err == nil { // what Run sees before its first sale
			s.Owed.Waiting = nil
			for i, k := range s.Authorisation.Kinds {
				s.Authorisation.Kinds[i].Sealed, s.Authorisation.Kinds[i].Waiting = 0, map[string]int{"01": 1}[k.Kind]
			}
		}
		return s, err
	}
	if report, err := certify.New(o).Run(t.Context()); err != nil {
		t.Error(report, err)
	}
	b.holds(b.wanted)
}

// TestCertify_Refused: MH refuses one kind: the report says which, with the code and the field. That kind is given up,
// and every kind that does not refer to it goes on.
func TestCertify_Refused(t *testing.T) {
	b := open(t)
	b.wanted = map[string]int{"01": 2, "03": 4, "05": 1, "07": 2, "14": 1}
	b.chaos(simulator.Chaos{Reject: 1_000, RejectType: "03"})
	report, err := certify.New(b.options()).Run(t.Context())
	if !errors.Is(err, certify.ErrIncomplete) || report.Complete {
		t.Fatalf("%v %+v", err, report)
	}
	want := certify.Refusal{Kind: "03", By: "MH", Code: "007", Field: "resumen.totalPagar", Documents: 3}
	if len(report.Refusals) != 1 {
		t.Fatalf("%+v", report.Refusals)
	}
	got := report.Refusals[0]
	if len(got.Example) != 36 || !strings.Contains(got.Text, "NO ES PERMITIDO") || len(got.Notes) == 0 {
		t.Errorf("%+v", got)
	}
	if got.Example, got.Text, got.Notes = "", "", nil; got.Kind != want.Kind || got.By != want.By ||
		got.Code != want.Code || got.Field != want.Field || got.Documents != want.Documents {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(report.Stopped) != 2 || report.Stopped[0].Kind != "03" || report.Stopped[1].Kind != "05" ||
		report.Stopped[1].Why != "there is no 03 to make it against" {
		t.Errorf("%+v", report.Stopped)
	}
	if got := b.Sim.Types(); !maps.Equal(got, map[string]int{"01": 2, "07": 2, "14": 1}) {
		t.Errorf("MH sealed %v", got)
	}

	var stopped strings.Builder
	if err := report.WritePage(&stopped, "La Ceiba", "06141804941035"); err != nil ||
		!strings.Contains(stopped.String(), "Hacienda rechazó 3 seguidos, el último con 007 ") ||
		!strings.Contains(stopped.String(), "no hay documento de tipo 03 sobre el cual hacerlo") {
		t.Errorf("%v\n%s", err, &stopped)
	}

	// MH is fixed: the next run finishes the kind, and still names what was refused.
	b.chaos(simulator.Chaos{})
	report, err = certify.New(b.options()).Run(t.Context())
	if err != nil || !report.Complete || len(report.Refusals) != 1 {
		t.Errorf("%v %+v", err, report)
	}
	var page strings.Builder
	if err := report.WritePage(&page, "Abarrotes <La Ceiba>", "06141804941035"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Abarrotes &lt;La Ceiba&gt; · NIT 0614-180494-103-5", "Hacienda selló el mínimo",
		"Crédito fiscal", "resumen.totalPagar", "desde el 2026-09-23"} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

// TestCertify_RefusedInvalidation: MH refuses an invalidation: the next one is of another invoice, and the report has
// MH's code, text and the document. Three in a row end only the invalidations.
func TestCertify_RefusedInvalidation(t *testing.T) {
	b := open(t)
	b.wanted = map[string]int{"01": 4, "invalidacion": 2}
	b.chaos(simulator.Chaos{RejectEvents: 1})
	report, err := certify.New(b.options()).Run(t.Context())
	if err != nil || !report.Complete || len(report.Stopped) > 0 || len(report.Refusals) != 1 {
		t.Fatalf("%v %+v", err, report)
	}
	got := report.Refusals[0]
	if got.Kind != "invalidacion" || got.By != "MH" || got.Code == "" || got.Text == "" || got.Documents != 1 {
		t.Errorf("%+v", got)
	}
	if d := b.Get("documento/" + got.Example); d.Estado != "PROCESSED" {
		t.Errorf("the invoice whose invalidation was refused is %s", d.Estado)
	}
	b.holds(b.wanted)

	b.wanted = map[string]int{"01": 9, "invalidacion": 7}
	b.chaos(simulator.Chaos{RejectEvents: 100})
	report, err = certify.New(b.options()).Run(t.Context())
	if !errors.Is(err, certify.ErrIncomplete) || len(report.Stopped) != 1 || report.Stopped[0].Kind != "invalidacion" ||
		!strings.Contains(report.Stopped[0].Why, "MH refused 3 in a row") {
		t.Fatalf("%v %+v", err, report)
	}
	if len(report.Refusals) != 1 || report.Refusals[0].Documents != 3 || b.Sim.Types()["01"] != 9 {
		t.Errorf("%+v, %v", report.Refusals, b.Sim.Types())
	}
}

// between refuses five sales instead of the branch, has MH refuse the next one, and lets the seventh pass.
type between struct {
	*branch
	next  http.RoundTripper
	sales int
}

func (r *between) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		switch r.sales++; r.sales % 7 {
		default:
			return &http.Response{StatusCode: http.StatusBadRequest, Request: req, Header: http.Header{}, Body: io.NopCloser(
				strings.NewReader(`{"status":"error","type":"VALIDATION_ERROR","message":"x","errors":[]}`))}, nil
		case 6:
			r.chaos(simulator.Chaos{Reject: 1})
		case 0:
		}
	}
	return r.next.RoundTrip(req)
}

// TestCertify_NotInARow: a kind is given up after refusals in a row alone, of the branch or of MH, however many there
// were before a success.
func TestCertify_NotInARow(t *testing.T) {
	b := open(t)
	b.wanted = map[string]int{"01": 3}
	o := b.options()
	o.Client.Transport = &between{branch: b, next: o.Client.Transport}
	report, err := certify.New(o).Run(t.Context())
	if err != nil || !report.Complete || len(report.Stopped) > 0 {
		t.Fatalf("%v %+v", err, report)
	}
	refused := make(map[string]int)
	for _, r := range report.Refusals {
		refused[r.By] += r.Documents
	}
	if want := map[string]int{"branch": 15, "MH": 3}; !maps.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
	b.holds(b.wanted)
}

// TestCertify_Credentials: MH refuses the password: the run says so and what to do, after one sale, which is not lost.
func TestCertify_Credentials(t *testing.T) {
	b := open(t)
	b.wanted = map[string]int{"01": 3}
	b.chaos(simulator.Chaos{LoginCode: 106})
	report, err := certify.New(b.options()).Run(t.Context())
	if !errors.Is(err, certify.ErrCredentials) || !strings.Contains(err.Error(), "authority.password_file") {
		t.Fatalf("%v %+v", err, report)
	}
	if report == nil || report.Complete || report.Kinds[0].Waiting != 1 {
		t.Errorf("%+v", report)
	}
}

// TestCertify_Away: MH goes away in the middle: the run sends nothing more, says so, and goes on when MH is back; the
// contingency's own event counts. When MH stays away longer than the run is patient, the run ends and says what to do.
func TestCertify_Away(t *testing.T) {
	b := open(t)
	b.wanted = map[string]int{"01": 6, "contingencia": 1}
	o := b.options()
	o.Kinds = []string{"01"}
	var mu sync.Mutex
	away, waited := false, 0
	o.Show = func(sealed, _ int, what string) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case sealed == 2 && !away:
			away = true
			b.chaos(simulator.Chaos{Outage: true})
		case strings.HasPrefix(what, "MH has not answered"):
			if waited++; waited == 2 {
				b.chaos(simulator.Chaos{})
			}
		}
	}
	report, err := certify.New(o).Run(t.Context())
	if err != nil || !report.Complete || waited < 2 {
		t.Fatalf("%v, waited %d times: %+v", err, waited, report)
	}
	b.holds(b.wanted)

	b.wanted["01"] = 8
	b.chaos(simulator.Chaos{Outage: true})
	o.Patience, o.Show = 300*time.Millisecond, b.options().Show
	report, err = certify.New(o).Run(t.Context())
	if !errors.Is(err, certify.ErrAway) || !strings.Contains(err.Error(), "run it again") ||
		report.Kinds[0].Waiting != 1 {
		t.Errorf("%v %+v", err, report)
	}
}

// TestCertify_Production: nothing is sent from a branch in production, nor during a contingency that an operator
// declared.
func TestCertify_Production(t *testing.T) {
	b := open(t)
	o := b.options()
	o.Status = func(context.Context) (*adminclient.Status, error) { return &adminclient.Status{Ambiente: "01"}, nil }
	if _, err := certify.New(o).Run(t.Context()); !errors.Is(err, certify.ErrProduction) {
		t.Error(err)
	}
	if err := b.Engine.Contingency().Declare(t.Context(), 3, "sin Internet"); err != nil {
		t.Fatal(err)
	}
	if _, err := certify.New(b.options()).Run(t.Context()); !errors.Is(err, certify.ErrDeclared) {
		t.Error(err)
	}
	if got := b.Sim.Received(); got != (simulator.Counts{}) {
		t.Errorf("%+v", got)
	}
}
