package enginetest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/authority/connpool/linktest"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/redacted"
	"dtegate/engine/rulestore"
	"dtegate/engine/sign"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// cable is the wire between a branch and the authority in fake time: connections in memory, which can be refused, or
// can swallow their data.
type cable struct {
	mu     sync.Mutex
	state  CableState
	accept chan net.Conn
	open   map[net.Conn]bool
	closed bool // nobody listens any more
}

type CableState int

const (
	Plugged CableState = iota
	Refusing
	NoName   // not even a name is found
	CutOff   // not even a route
	Dropping // all data is lost: a connect or a look-up fails only when its context ends
)

func NewCable() *cable { return &cable{accept: make(chan net.Conn, 64), open: map[net.Conn]bool{}} }

func (c *cable) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Dropping {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
	}
	switch {
	case c.closed || c.state == Refusing:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	case c.state == CutOff:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	case c.state == Dropping:
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
	case c.state == NoName: // as a socket without a route; Lookup says more
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EHOSTUNREACH}
	}
	near, far := net.Pipe()
	c.open[far] = true
	c.accept <- far
	return near, nil
}

// Lookup answers a name like the resolver of a branch with this cable.
func (c *cable) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	switch state {
	case NoName:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case Dropping:
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	return []netip.Addr{netip.IPv4Unspecified()}, nil
}

// Set changes the cable's state. Any state but Plugged closes the open connections.
func (c *cable) Set(s CableState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	if s != Plugged {
		for conn := range c.open {
			_ = conn.Close()
			delete(c.open, conn)
		}
	}
}

func (c *cable) Now() CableState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Accept, Close and Addr make the far end a listener.
func (c *cable) Accept() (net.Conn, error) {
	conn, ok := <-c.accept
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (c *cable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.accept)
	}
	return nil
}

func (c *cable) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Box is a branch with its authority in fake time. All of it lives in a bubble of testing/synctest.
type Box struct {
	T        testing.TB
	ambiente string // CAT-001; empty: 00
	Sim      *simulator.Simulator
	Cable    *cable
	Path     *linktest.Path // to the cable, if connections are kept ready; nil: none are
	Fs       *disktest.Disk
	Skew     atomic.Int64 // of the branch's clock, ns
	ahead    atomic.Int64 // the greatest Skew that the branch has seen
	Log      *slog.Logger
	Policy   contingency.Options
	DoubtFor time.Duration // Options.DoubtFor
	Rand     *rand.Rand
	// Password is the branch's password for the login; MH knows "secreto-mh.2026".
	Password redacted.Text
	// Lateness: MH processes some requests long after it received them; by MT1's policy the branch sends them twice.
	Lateness bool
	// Every is how often the branch looks for pending work when nothing rings, default a minute.
	Every    time.Duration
	Delivery outbox.Delivery
	Book     *rulestore.Book      // instead of the common one
	Patience time.Duration        // Options.Patience
	Second   string               // the folder of the second copy; empty: none
	Ours     func([]string) error // storage.Options.Ours
	Opened   func() error         // called when the store is open; may be nil
	Heard    func(string)         // called with the header Date of each answer of MH; may be nil

	Store  *storage.Store
	Engine *engine.Engine
	link   *connpool.Link
	Wire   *wire
	Stop   context.CancelFunc
	Done   chan struct{}
	Server *http.Server
}

// Monday is when a box starts: 2026-11-02 08:00 in El Salvador.
var Monday = time.Date(2026, 11, 2, 14, 0, 0, 0, time.UTC)

// InBubble runs a test in fake time, from Monday.
func InBubble(t *testing.T, fn func(*Box)) { InBubbleFrom(t, Monday, fn) }

// InBubbleFrom is InBubble from another time (begin).
func InBubbleFrom(t *testing.T, begin time.Time, fn func(*Box)) { InBubbleOf(t, "00", begin, fn) }

// InBubbleOf is InBubbleFrom in an ambiente (CAT-001).
func InBubbleOf(t *testing.T, ambiente string, begin time.Time, fn func(*Box)) {
	Common(t) // real work, outside of fake time
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		b := &Box{T: t, ambiente: ambiente, Cable: NewCable(), Fs: disktest.New(disktest.Strict), Rand: rand.New(rand.NewPCG(1, 1)),
			Log: Quiet, Password: "secreto-mh.2026",
			Policy: contingency.Options{Responsible: record.Person{Name: "María López", DocumentType: "13",
				Document: "012345678"}}}
		b.Sim = simulator.New(simulator.Options{Seed: 1, Now: time.Now, Logger: Quiet,
			AllowProduction: ambiente == "01", Issuers: []simulator.Issuer{{NIT: TestNIT, Password: "secreto-mh.2026",
				PublicKey: Common(t).Key.Public()}}})
		b.Server = &http.Server{Handler: b.Sim.Protocol(), ErrorLog: nil}
		serving := make(chan struct{})
		go func() { defer close(serving); _ = b.Server.Serve(b.Cable) }()
		if err := storage.Create(b.Storage()); err != nil {
			t.Fatal(err)
		}
		b.Start()
		fn(b)
		b.Close()
		_ = b.Server.Close()
		<-serving
	})
}

func (b *Box) Now() time.Time {
	skew := b.Skew.Load()
	for seen := b.ahead.Load(); skew > seen && !b.ahead.CompareAndSwap(seen, skew); seen = b.ahead.Load() {
	}
	return time.Now().Add(time.Duration(skew))
}

func (b *Box) Storage() storage.Options {
	return storage.Options{Dir: "/data", MarkPath: "/mark", FS: b.Fs, SecondCopy: b.Second, Logger: Quiet, Now: b.Now,
		Ours: b.Ours, FakeTime: true, Fatal: func(m string) { panic("fatal: " + m) }}
}

// Start opens the branch on its filesystem.
func (b *Box) Start() {
	b.T.Helper()
	if err := b.TryStart(); err != nil {
		b.T.Fatal(err)
	}
}

// TryStart is Start for a store that may refuse to open.
func (b *Box) TryStart() (err error) {
	if b.Store, err = storage.Open(b.Storage()); err != nil {
		return err
	}
	if b.Opened != nil {
		if err = b.Opened(); err != nil {
			return err
		}
	}
	options := connpool.Options{URL: "http://mh", Dial: b.Cable.DialContext, Lookup: b.Cable.Lookup}
	if b.Path != nil {
		options.Dial, options.Lookup = b.Path.Dial, b.Path.Lookup
	}
	b.link = connpool.New(options)
	b.Wire = &wire{Under: b.link, heard: b.Heard}
	ambiente := cmp.Or(b.ambiente, "00")
	client := authority.New(authority.Options{BaseURL: "http://mh", NIT: TestNIT, Password: b.Password, Ambiente: ambiente,
		Rehearsal: ambiente == "01", UserAgent: "test", Now: b.Now, Transport: b.Wire})
	issuer := TestIssuer()
	issuer.Ambiente = ambiente
	b.Engine, err = engine.New(engine.Options{Store: b.Store, Signer: sign.New(Common(b.T).Key), Authority: client,
		Shelf:  Ruled(b.T, b.Store, cmp.Or(b.Book, Common(b.T).Book), ambiente, b.Now),
		Issuer: issuer, Logger: b.Log, Now: b.Now, Reachable: b.link.Ready(),
		DoubtFor: b.DoubtFor, Patience: b.Patience, Contingency: b.Policy, RecoverEvery: cmp.Or(b.Every,
			time.Minute), Delivery: b.Delivery, Gate: func(record.Point) error { return nil },
		Open: func(string) bool { return true }, Acted: func(engine.Act) {}})
	if err != nil {
		b.link.Close()
		return errors.Join(err, b.Store.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.Stop, b.Done = cancel, done
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if b.Path != nil {
			_ = b.link.Run(ctx)
		}
	}()
	go func() {
		defer close(done)
		if b.Store.Behind() == nil { // like the appliance: a store that is behind accepts no writes
			if err := b.Engine.Run(ctx); err != nil {
				b.T.Error(err)
			}
		}
		<-kept
	}()
	return nil
}

// Restart ends the branch properly and starts it again with another policy for work without MH.
func (b *Box) Restart(change func(*contingency.Options)) {
	b.Close()
	if change != nil {
		change(&b.Policy)
	}
	b.Start()
}

// Close ends the branch properly.
func (b *Box) Close() {
	b.T.Helper()
	b.Stop()
	<-b.Done
	b.link.Close()
	if err := b.Store.Close(); err != nil {
		b.T.Error(err)
	}
}

// Fork returns a source of randomness for one crash. A crash draws more or fewer numbers, depending on the files'
// content; this must not change what later steps draw.
func Fork(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), 0)) }

// Crash ends the branch as a power cut does, with a part of the unsynced data, and starts it again.
func (b *Box) Crash() {
	b.T.Helper()
	after := b.Fs.Crash(b.Rand.IntN(101), Fork(b.Rand))
	b.Close()
	b.Fs = after
	b.Start()
}

// At makes fn run before and after every request to MH, until the next start.
func (b *Box) At(fn func(point string)) {
	b.Wire.Mu.Lock()
	defer b.Wire.Mu.Unlock()
	b.Wire.At = fn
}

func (b *Box) Chaos(c simulator.Chaos) {
	b.T.Helper()
	c.LotMS = 120_000 // MT1: a lot takes one to three minutes
	if err := b.Sim.Chaos(c); err != nil {
		b.T.Fatal(err)
	}
}

func (b *Box) Issue(req engine.Request) *record.View {
	b.T.Helper()
	r, err := b.Engine.Issue(context.Background(), req)
	if err != nil {
		b.T.Fatal(err)
	}
	return r
}

func (b *Box) Document(code string) *record.View {
	b.T.Helper()
	r, err := b.Engine.Documents().Document(context.Background(), CodeOf(&record.View{Code: code}), TestCaller(1))
	if err != nil {
		b.T.Fatalf("%s: %v", code, err)
	}
	return r
}

// OwedBy counts what a branch has to do now; CountBacklog may be two seconds old.
func OwedBy(e *engine.Engine) (*engine.Backlog, error) {
	toMH, err := e.Contingency().CountBacklog()
	if err != nil {
		return nil, err
	}
	o := &engine.Backlog{Backlog: *toMH}
	return o, e.Outbox().CountUndelivered(&o.Delivery)
}

// Limits checks that no document had a later deadline than MH's: 72 h from the seal of the first event that lists it.
// If the branch's clock was ahead, the deadline may be later by as much.
func (b *Box) Limits() {
	b.T.Helper()
	sealed := make(map[string]time.Time)
	for _, e := range b.Sim.Events() {
		for _, code := range e.Documents {
			if _, listed := sealed[code]; !listed {
				sealed[code] = e.At
			}
		}
	}
	err := b.Store.Records(0, func(entry storage.Entry) error {
		h, err := record.DecodeHead(entry)
		if !record.IsDocument(entry.State) || err != nil || h.Limit.IsZero() {
			return nil
		}
		code := dte.Code(entry.Code).String()
		if at, listed := sealed[code]; !listed || h.Limit.After(at.Add(72*time.Hour+2*time.Second+
			time.Duration(b.ahead.Load()))) {
			b.T.Errorf("%s was due by %v; MH sealed an event with it: %v, at %v", code, h.Limit, listed, at)
		}
		return nil
	})
	if err != nil {
		b.T.Error(err)
	}
}

// Heads checks that the head of every document agrees with the signed form that it names, and with the form's facts.
func (b *Box) Heads() {
	b.T.Helper()
	err := b.Store.Records(0, func(entry storage.Entry) error {
		h, err := record.DecodeHead(entry)
		if !record.IsDocument(entry.State) || err != nil {
			return nil
		}
		signed, err := record.SignedBytes(b.Store, entry.Code, h)
		if errors.Is(err, record.ErrLost) {
			return nil
		}
		document, bad := dte.Parse(signed)
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		text, _ := record.Part(b.Store, entry.Code, h.FactsPart())
		facts, _ := dte.ParseFacts(text) // lost facts are absent
		id, cause := document.Get("identificacion"), h.Cause
		if h.Form == record.FormNormal {
			cause = 0 // MH has the normal form of a document that was deferred
		}
		for what, c := range map[string][2]string{
			"type":    {h.Document, cmp.Or(id.Get("tipoDte").Text(), "18")},
			"version": {strconv.Itoa(h.Version), id.Get("version").Text()},
			"code":    {dte.Code(entry.Code).String(), id.Get("codigoGeneracion").Text()},
			"number":  {h.ControlNumber, cmp.Or(id.Get("numeroControl").Text(), h.ControlNumber)},
			"day":     {h.Date, id.Get("fecEmi").Text()},
			"state":   {h.Ambiente, id.Get("ambiente").Text()},
			"cause":   {strconv.FormatInt(cause, 10), cmp.Or(id.Get("tipoContingencia").Text(), "0")},
		} {
			if c[0] != c[1] {
				b.T.Errorf("%s: its head has the %s %q, its form %q", dte.Code(entry.Code), what, c[0], c[1])
			}
		}
		names := func(of dte.Value) bool {
			return h.Mail == outbox.Recipient(of) && reflect.DeepEqual(h.Receiver, record.ReceiverOf(of))
		}
		if !names(document) && !names(facts) {
			b.T.Errorf("%s: its head names %+v %s, its facts %s", dte.Code(entry.Code), h.Receiver, h.Mail,
				facts.Get("receptor").Append(nil))
		}
		return nil
	})
	if err != nil {
		b.T.Error(err)
	}
}

// Audit checks what must hold when everything is sent: nothing is owed, each document is the one that MH holds, and MH
// saw no breach.
func (b *Box) Audit() {
	b.T.Helper()
	owed, err := OwedBy(b.Engine)
	if err != nil {
		b.T.Fatal(err)
	}
	for queue, n := range owed.Waiting {
		if n != 0 && queue != record.QueueCorrect { // people must act
			b.T.Errorf("%d records wait in queue %s", n, queue)
		}
	}
	for _, breach := range b.Sim.Audit() {
		// An event whose answer was lost is sent again, even late: only the answer shows whether MH has it. If MH
		// refuses the event, its documents go into another event; otherwise they would still wait in a queue.
		if !strings.Contains(breach, " event ") || !strings.Contains(breach, "came after") {
			b.T.Errorf("MH saw: %s", breach)
		}
	}
	if got := b.Sim.Received(); got.Duplicates != 0 && !b.Lateness {
		b.T.Errorf("MH received %+v", got)
	}
	held := 0
	for code, a := range b.Sim.Accepted() {
		held++
		estado := record.EstadoProcessed
		if a.Invalidated {
			estado = record.EstadoInvalidated
		}
		if r := b.Document(code); string(r.JSON) != string(a.Document) || r.Sello != a.Sello || r.Estado != estado {
			b.T.Errorf("%s is %s %s, MH holds %s\n%s\n%s", code, r.Estado, r.Sello, a.Sello, r.JSON, a.Document)
		}
	}
	b.Limits()
	b.Heads()
	report, err := b.Store.Fsck(context.Background())
	if err != nil {
		b.T.Fatal(err)
	}
	for _, p := range report.Problems {
		b.T.Errorf("fsck: %v", p)
	}
	if n := DocumentsOf(report); n < held {
		b.T.Errorf("%d documents, MH holds %d", n, held)
	}
}
