// Package certify sends the tests that MH requires in the test ambiente before it authorises an issuer (Manual
// Funcional 2.0, XXIV). Like a till, it sends varied and lawful sales, notes and returns that refer to these sales,
// invalidations, and sales in contingency. It reads the branch's records at every step and keeps no records of its own;
// after a crash the Idempotency-Key finds the sales that were begun.
package certify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/engine/documents"
	"dtegate/engine/fairqueue"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// Kinds are the kinds of tests, in the order of the plan: types of CAT-002, invalidacion and contingencia.
var Kinds []string

const (
	invalidation = "invalidacion"
	contingency  = "contingencia"
)

var (
	// types has, by number in CAT-002, the types of documents for which MH requires tests.
	types = make(map[string]*bundle.Type)
	// sales are the types that are sales. Invalidations use sales[0]; so do contingency events if no sale is due.
	sales []string
)

func init() {
	for _, t := range plugins.Types() {
		if t.Tests == 0 {
			continue
		}
		types[t.Document], Kinds = t, append(Kinds, t.Document)
		if t.Closing == bundle.Sale {
			sales = append(sales, t.Document)
		}
	}
	Kinds = append(Kinds, invalidation, contingency)
}

// Path returns the path of the tills' API for documents of a kind.
func Path(kind string) string { return "/dte/" + types[kind].Path }

// originOf returns the kind of sale to which documents of a kind refer, or "". If several kinds are possible, it
// returns the last of them.
func originOf(kind string) string {
	if kind == invalidation {
		return sales[0]
	}
	if t := types[kind]; t != nil {
		for _, o := range slices.Backward(t.Origins) {
			if slices.Contains(sales, o) {
				return o
			}
		}
	}
	return ""
}

// Person signs an invalidation. DocumentType is a code of CAT-022.
type Person struct {
	Name         string `json:"nombre"`
	DocumentType string `json:"tipoDocumento"`
	Document     string `json:"numDocumento"`
}

// UnmarshalText reads "NAME,TYPE,NUMBER".
func (p *Person) UnmarshalText(text []byte) error {
	m := personForm.FindStringSubmatch(string(text))
	if m == nil {
		return errors.New(`a person is "NAME,TYPE,NUMBER": María López,13,012345678`)
	}
	*p = Person{strings.TrimSpace(m[1]), strings.TrimSpace(m[2]), strings.TrimSpace(m[3])}
	return nil
}

var personForm = regexp.MustCompile(`^(.*),([^,]*),([^,]*)$`)

// Options of New.
type Options struct {
	URL    string // address of the tills' API
	Token  string // a till's token that may issue every kind and invalidate
	Client *http.Client
	// Status asks the appliance's /status.
	Status func(context.Context) (*adminclient.Status, error)
	Seed   uint64
	// Kinds are the kinds of tests to send; empty: all.
	Kinds []string
	// Receivers are taxpayers that MH knows, in the form of the API's receptor. Without them, receivers are invented.
	Receivers   []map[string]any
	Responsible Person // signs the invalidations
	// Pace is the shortest time from one sending to the next. Patience is how long MH or the branch may fail to answer.
	Pace, Patience time.Duration
	Now            func() time.Time
	// Show is called at every step. sealed is how many of the wanted documents MH has sealed; what describes the step.
	Show func(sealed, wanted int, what string)
}

// Errors that end a run. Sealed documents stay sealed, and the next run continues.
var (
	ErrProduction  = errors.New("this branch is not in the test ambiente (00): nothing was sent")
	ErrCredentials = errors.New("MH refuses the credentials")
	ErrDeclared    = errors.New("an operator has declared a contingency: end it first with dtectl contingency end")
	ErrAway        = errors.New("MH does not answer")
	ErrIncomplete  = errors.New("not every kind was sealed as often as MH wants")
)

// A kind is given up after mostRefused refusals in a row by MH, or mostInvalid by the branch.
const (
	mostRefused = 3
	mostInvalid = 10
)

// Runner sends the tests.
type Runner struct {
	o        Options
	till     *till
	status   *adminclient.Status
	pools    map[string][]string // documents that another document may refer to, by kind
	filled   map[string]int      // number of sealed documents of a kind when its pool was read
	used     map[string]bool     // documents that no other document may refer to any more
	ordinals map[string]int      // the next ordinal of each kind, in this run
	inARow   map[string]int      // refusals by MH in a row
	invalid  map[string]int      // refusals by the branch in a row
	stopped  map[string]Stopped  // kinds given up
	faults   []Refusal           // refusals by the branch, and refused invalidations: no stored document shows them
	sent     time.Time
	round    int // number of sealed events when this run last issued in contingency; -1: never
}

// New returns a Runner that has sent nothing yet.
func New(o Options) *Runner {
	if len(o.Kinds) == 0 {
		o.Kinds = Kinds
	}
	r := &Runner{o: o, pools: make(map[string][]string), filled: make(map[string]int), used: make(map[string]bool),
		ordinals: make(map[string]int), inARow: make(map[string]int),
		invalid: make(map[string]int), stopped: make(map[string]Stopped), round: -1}
	r.till = &till{o, r.say}
	return r
}

// Run sends until MH has sealed all that it requires, or nothing can be sent. The report is nil if the branch does not
// answer.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	err := r.send(ctx)
	report, failed := r.report(context.WithoutCancel(ctx))
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	if err == nil && !report.Complete {
		err = ErrIncomplete
	}
	return report, err
}

func (r *Runner) look(ctx context.Context) error {
	for tries := 0; ; tries++ {
		s, err := r.o.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (s.Ambiente != "00" || s.Authorisation == nil):
			return ErrProduction
		case err == nil && !s.Authorisation.Partial:
			r.status = s
			return nil
		case err == nil:
			err = errors.New("the branch is still counting its documents")
		case r.status == nil:
			return err
		}
		if time.Duration(tries)*time.Second > r.o.Patience {
			return err
		}
		if err := fairqueue.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (r *Runner) count(kind string) documents.Sealed {
	for _, c := range r.status.Authorisation.Kinds {
		if c.Kind == kind {
			return c
		}
	}
	return documents.Sealed{Kind: kind}
}

// wants reports whether the run sends a kind and MH requires it.
func (r *Runner) wants(kind string) bool {
	return slices.Contains(r.o.Kinds, kind) && r.count(kind).Wanted > 0
}

// say passes the run's progress, and a text about what happens, to Show.
func (r *Runner) say(what string) {
	if r.status == nil {
		return
	}
	sealed, wanted := 0, 0
	for _, k := range r.o.Kinds {
		c := r.count(k)
		sealed, wanted = sealed+min(c.Sealed, c.Wanted), wanted+c.Wanted
	}
	r.o.Show(sealed, wanted, what)
}

func (r *Runner) givenUp(kind string) bool {
	_, given := r.stopped[kind]
	return given
}

// refusedTooOften gives up a kind after mostRefused consecutive refusals by MH. a is MH's last answer.
func (r *Runner) refusedTooOften(kind string, a *answer) {
	last := "no answer"
	if a != nil {
		last = a.Code + " " + a.Text
	}
	r.stop(kind, fmt.Sprintf("MH refused %d in a row, the last with %s", mostRefused, last),
		fmt.Sprintf("Hacienda rechazó %d seguidos, el último con %s", mostRefused, last))
}

func (r *Runner) stop(kind, why, motive string) {
	r.stopped[kind] = Stopped{kind, why, motive}
	r.say(fmt.Sprintf("%s is given up: %s", kind, why))
}
