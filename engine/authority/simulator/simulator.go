package simulator

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// zone is El Salvador's: UTC-6, without daylight saving. MH dates and answers in it.
var zone = time.FixedZone("America/El_Salvador", -6*60*60)

// Issuer is a taxpayer as MH has it registered.
type Issuer struct {
	NIT       string         // 9 or 14 digits, no hyphens: also the user of the login
	Password  string         // of the API, not of the portal: 13 to 25 characters, with letters, digits and others (MT2)
	PublicKey *rsa.PublicKey // of the certificate in force; every signature is held against this one

	// NRC, when not empty, is the only one that the issuer's documents may bear.
	NRC string
	// Activities, when not empty, are the CAT-019 codes that the issuer may invoice under.
	Activities []string
}

// Options of a Simulator. Now and at least one issuer are required.
type Options struct {
	// Seed makes seals and tokens repeatable.
	Seed uint64
	Now  func() time.Time

	Issuers []Issuer

	// Taxpayers, when not empty, are the only NITs that MH knows as receivers of a document 03.
	Taxpayers []string

	// Switch is the day from which ambiente "01" takes DTE 2.0 and before which it takes the generation before, by the
	// date that the document bears. Default 2026-12-01. Ambiente "00" takes both at any time, as apitest does.
	Switch time.Time

	// Laws are what is held against documents from their days on; none: the law of 2026.
	Laws []Law

	// CyclicLots is how many lots of cyclic billing MH takes from an issuer in one window; contingency lots are not counted
	// (MT1 §3.4; MT2 has 400 for the test environment too). Default 400.
	CyclicLots int

	// AllowProduction lets ambiente "01" in, to rehearse production. Without it the simulator refuses every production
	// document, so that a branch pointed at it by mistake cannot believe itself to be invoicing.
	AllowProduction bool

	// Listen reopens the protocol port after an outage. Default net.Listen.
	Listen func(network, address string) (net.Listener, error)

	Logger *slog.Logger // default slog.Default()
}

// Simulator is one simulated tax authority. All methods may be called at once. What it does beside answering are its parts; a part
// knows those above it alone.
type Simulator struct {
	*core
	*hostility
	*registry

	sessions map[string]session // guarded by mu
}

// core is what every part reads.
type core struct {
	options   Options
	issuers   map[string]Issuer
	taxpayers map[string]bool
	schemas   map[generation]*schema
	log       *slog.Logger

	ahead atomic.Int64 // Chaos.ClockMS, in nanoseconds

	lawful sync.RWMutex // guards laws
	laws   []Law        // by their first day

	mu    sync.Mutex // guards everything below, and what other parts say that it guards
	rand  *rand.Rand
	chaos Chaos
}

// hostility is what the network and MH's servers do to those who ask.
type hostility struct {
	*core

	// switching serialises changes of the chaos, which may take the time of opening a port.
	switching sync.Mutex

	// Guarded by mu.
	spoken chan struct{} // closed when a silence ends
	door   *door         // nil unless Serve runs
	plan   *plan         // nil until there is a schedule
}

// registry is what MH has received, and what it thinks of it.
type registry struct {
	*core
	*hostility
	books books // guarded by mu
}

// New returns a simulator that knows the given issuers and has received nothing. It panics when Now is nil or an
// issuer lacks its NIT, password or key: those are mistakes of the caller's code.
func New(o Options) *Simulator {
	if err := o.check(); err != nil {
		panic("simulator: " + err.Error())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.CyclicLots == 0 {
		o.CyclicLots = 400
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Switch.IsZero() {
		o.Switch = time.Date(2026, 12, 1, 0, 0, 0, 0, zone)
	}
	c := &core{options: o, issuers: make(map[string]Issuer), taxpayers: make(map[string]bool), schemas: compiled(), log: o.Logger.With("component", "simulator"),
		rand: rand.New(rand.NewPCG(o.Seed, 0x53494d55)), chaos: calm()}
	h := &hostility{core: c, spoken: make(chan struct{})}
	s := &Simulator{core: c, hostility: h, registry: &registry{core: c, hostility: h, books: newBooks()}, sessions: make(map[string]session)}
	if err := s.Enact(o.Laws...); err != nil {
		panic("simulator: " + err.Error())
	}
	for _, i := range o.Issuers {
		s.issuers[i.NIT] = i
	}
	for _, nit := range o.Taxpayers {
		s.taxpayers[nit] = true
	}
	return s
}

func (o *Options) check() error {
	if o.Now == nil {
		return errors.New("Options.Now is required")
	}
	for n, i := range o.Issuers {
		if i.NIT == "" || i.Password == "" || i.PublicKey == nil {
			return fmt.Errorf("issuer %d: NIT, Password and PublicKey are required", n)
		}
		if err := CheckPassword(i.Password); err != nil {
			return fmt.Errorf("issuer %d: %w", n, err)
		}
	}
	return nil
}

// Protocol answers what MH answers. Paths that MH has and this edition lacks are 404, as at MH.
func (s *Simulator) Protocol() http.Handler {
	mux := http.NewServeMux()
	for path, handler := range map[string]http.HandlerFunc{
		"/seguridad/auth":             s.login,
		"/fesv/recepciondte":          s.disturbed(documents, s.authenticated(s.receive)),
		"/fesv/recepcionlote":         s.disturbed(lots, s.authenticated(s.receiveLot)),
		"/fesv/contingencia":          s.disturbed(events, s.authenticated(s.receiveEvent)),
		"/fesv/anulardte":             s.disturbed(invalidations, s.authenticated(s.annul)),
		"/fesv/recepcion/consultadte": s.disturbed(queries, s.authenticated(s.query)),
	} {
		mux.HandleFunc(path, only(s, http.MethodPost, handler))
		mux.HandleFunc(path+"/{$}", only(s, http.MethodPost, handler))
	}
	lot := only(s, http.MethodGet, s.disturbed(queries, s.authenticated(s.queryLot)))
	mux.HandleFunc("/fesv/recepcion/consultadtelote/{lot}", lot)
	mux.HandleFunc("/fesv/recepcion/consultadtelote/{lot}/{$}", lot)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fault(w, r, http.StatusNotFound, "No message available")
	})
	return s.marked(s.hostile(mux))
}

// marked tells every reader that no authority spoke here, and when, by MH's clock.
func (s *Simulator) marked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Simulated", "true")
		next.ServeHTTP(clocked{w, s.now}, r)
	})
}

// clocked is an answer that bears the time at which it begins.
type clocked struct {
	http.ResponseWriter
	now func() time.Time
}

func (c clocked) WriteHeader(status int) {
	c.Header().Set("Date", c.now().UTC().Format(http.TimeFormat))
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (c clocked) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func only(s *Simulator, method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			s.fault(w, r, http.StatusMethodNotAllowed, "Request method '"+r.Method+"' not supported")
			return
		}
		next(w, r)
	}
}

// Reset forgets every document, event, lot, number, counter and breach, and ends every hostility and the schedule.
// Tokens stay valid.
func (s *Simulator) Reset() error {
	if err := s.Schedule(0); err != nil {
		return err
	}
	s.mu.Lock()
	s.books = newBooks()
	s.mu.Unlock()
	return s.Chaos(calm())
}
