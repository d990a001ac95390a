package simulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/protocol"
	"dtegate/cmd/dtesim/simulator/registry"
)

// Options are the options of a Simulator. Now and at least one issuer are required.
type Options struct {
	// Seed makes seals and tokens repeatable.
	Seed uint64
	Now  func() time.Time

	Issuers []Issuer

	// Taxpayers, if not empty, lists the only NITs that MH accepts as receivers of a document 03.
	Taxpayers []string

	// Switch is the first day of DTE 2.0 in ambiente "01": a document with an earlier date must be of the previous
	// generation. Default 2026-12-01. Ambiente "00" always accepts both generations, as apitest does.
	Switch time.Time

	// Laws apply to documents from each law's first day on. Default: the law of 2026.
	Laws []Law

	// CyclicLots is how many lots of cyclic billing MH accepts from an issuer in one window; contingency lots are not
	// counted (MT1 §3.4; MT2 gives 400 for the test environment too). Default 400.
	CyclicLots int

	// AllowProduction accepts ambiente "01", to rehearse production. Without it the simulator refuses every production
	// document, so that a branch that is connected to it by mistake cannot believe that it is invoicing.
	AllowProduction bool

	// Listen reopens the protocol port after an outage. Default net.Listen.
	Listen func(network, address string) (net.Listener, error)

	Logger *slog.Logger // default slog.Default()
}

// Simulator is a simulated tax authority. It is safe for concurrent use. A part knows only the parts above it.
type Simulator struct {
	options   Options
	hostility *hostility.Hostility // what goes wrong on request
	reader    *document.Reader     // checks a document by itself
	registry  *registry.Registry   // what was received
	protocol  *protocol.Protocol   // MH's HTTP interface
}

// New returns a simulator that knows the given issuers and has received nothing. It panics if Now is nil or an issuer
// lacks NIT, password or key: these are faults of the caller's code.
func New(o Options) *Simulator {
	if err := o.check(); err != nil {
		panic("simulator: " + err.Error())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("component", "simulator")
	if o.CyclicLots == 0 {
		o.CyclicLots = 400
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Switch.IsZero() {
		o.Switch = time.Date(2026, 12, 1, 0, 0, 0, 0, document.Zone)
	}
	h := hostility.New(o.Now, o.Listen, o.Logger)
	r := &document.Reader{Taxpayers: make(map[string]bool), Switch: o.Switch, AllowProduction: o.AllowProduction,
		Habits: h.Habits, Log: o.Logger}
	for _, nit := range o.Taxpayers {
		r.Taxpayers[nit] = true
	}
	if err := r.Enact(o.Laws...); err != nil {
		panic("simulator: " + err.Error())
	}
	g := registry.New(r, h, o.CyclicLots, o.Seed, o.Logger)
	return &Simulator{options: o, hostility: h, reader: r, registry: g, protocol: protocol.New(h, r, g, o.Issuers,
		o.Logger)}
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

// Protocol returns the handler of MH's services. Paths of MH that this edition lacks get a 404, as at MH.
func (s *Simulator) Protocol() http.Handler { return s.protocol.Handler() }

// Keep reads from a file what an earlier simulator accepted, and adds to the file what this simulator accepts. A later
// day of a rehearsal thus finds the documents of earlier days. Call Close at the end.
func (s *Simulator) Keep(path string) error { return s.registry.Keep(path) }

// Close closes the file of Keep.
func (s *Simulator) Close() error { return s.registry.Close() }

// Enact adds laws. If two laws of one day and type set the same value, the law that was added later applies.
func (s *Simulator) Enact(laws ...Law) error { return s.reader.Enact(laws...) }

// Reset forgets every document, event, lot, number, counter and breach, and ends every hostility and the schedule.
// Tokens stay valid.
func (s *Simulator) Reset() error {
	if err := s.Schedule(0); err != nil {
		return err
	}
	s.registry.Reset()
	return s.Chaos(hostility.Calm())
}
