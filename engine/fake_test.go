package engine

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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/authority/connpool/linktest"
	"dtegate/engine/contingency"
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
	state  cableState
	accept chan net.Conn
	open   map[net.Conn]bool
	closed bool // nobody listens any more
}

type cableState int

const (
	plugged cableState = iota
	refusing
	noName   // not even a name is found
	cutOff   // not even a route
	dropping // sent data is lost: a connection lasts until its time is over
)

func newCable() *cable { return &cable{accept: make(chan net.Conn, 64), open: map[net.Conn]bool{}} }

func (c *cable) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == dropping {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
	}
	switch {
	case c.closed || c.state == refusing:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	case c.state == cutOff:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	case c.state == dropping:
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
	case c.state == noName: // as a socket without a route; Lookup says more
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
	case noName:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case dropping:
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	return []netip.Addr{netip.IPv4Unspecified()}, nil
}

// set changes the cable; taking it away cuts what is open.
func (c *cable) set(s cableState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	if s != plugged {
		for conn := range c.open {
			_ = conn.Close()
			delete(c.open, conn)
		}
	}
}

func (c *cable) now() cableState {
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

// box is a branch with its authority in fake time. All of it lives in a bubble of testing/synctest.
type box struct {
	t        testing.TB
	sim      *simulator.Simulator
	cable    *cable
	path     *linktest.Path // to the cable, if connections are kept ready; nil: none are
	fs       *disktest.Disk
	skew     atomic.Int64 // of the branch's clock, ns
	log      *slog.Logger
	policy   contingency.Options
	doubtFor time.Duration // Options.DoubtFor
	rand     *rand.Rand
	// password is the branch's password for the login; MH knows "secreto-mh.2026".
	password redacted.Text
	// lateness: MH received requests that it processed long after; MT1's policy sends those twice.
	lateness bool
	// every is how often the branch looks for pending work when nothing rings, default a minute.
	every    time.Duration
	delivery outbox.Delivery
	book     *rulestore.Book // instead of the common one
	patience time.Duration   // Options.Patience
	second   string          // the folder of the second copy; empty: none
	opened   func() error    // called when the store is open; nil: nobody
	heard    func(string)    // told of the date of each answer of MH; nil: nobody

	store  *storage.Store
	engine *Engine
	link   *connpool.Link
	wire   *wire
	stop   context.CancelFunc
	done   chan struct{}
	server *http.Server
}

// monday is when a box starts: 2026-11-02 08:00 in El Salvador.
var monday = time.Date(2026, 11, 2, 14, 0, 0, 0, time.UTC)

// inBubble runs a test in fake time, from monday.
func inBubble(t *testing.T, fn func(*box)) { inBubbleFrom(t, monday, fn) }

// inBubbleFrom is inBubble from a time of its own.
func inBubbleFrom(t *testing.T, begin time.Time, fn func(*box)) {
	common(t) // real work, outside of fake time
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		b := &box{t: t, cable: newCable(), fs: disktest.New(disktest.Strict), rand: rand.New(rand.NewPCG(1, 1)),
			log: quiet, password: "secreto-mh.2026",
			policy: contingency.Options{Responsible: record.Person{Name: "María López", DocumentType: "13",
				Document: "012345678"}}}
		b.sim = simulator.New(simulator.Options{Seed: 1, Now: time.Now, Logger: quiet,
			Issuers: []simulator.Issuer{{NIT: testNIT, Password: "secreto-mh.2026",
				PublicKey: common(t).key.Public()}}})
		b.server = &http.Server{Handler: b.sim.Protocol(), ErrorLog: nil}
		serving := make(chan struct{})
		go func() { defer close(serving); _ = b.server.Serve(b.cable) }()
		if err := storage.Create(b.storage()); err != nil {
			t.Fatal(err)
		}
		b.start()
		fn(b)
		b.close()
		_ = b.server.Close()
		<-serving
	})
}

func (b *box) now() time.Time { return time.Now().Add(time.Duration(b.skew.Load())) }

func (b *box) storage() storage.Options {
	return storage.Options{Dir: "/data", MarkPath: "/mark", FS: b.fs, SecondCopy: b.second, Logger: quiet, Now: b.now,
		FakeTime: true, Fatal: func(m string) { panic("fatal: " + m) }}
}

// start opens the branch on its filesystem.
func (b *box) start() {
	b.t.Helper()
	if err := b.tryStart(); err != nil {
		b.t.Fatal(err)
	}
}

// tryStart is start where the store may refuse to open.
func (b *box) tryStart() (err error) {
	if b.store, err = storage.Open(b.storage()); err != nil {
		return err
	}
	if b.opened != nil {
		if err = b.opened(); err != nil {
			return err
		}
	}
	options := connpool.Options{URL: "http://mh", Dial: b.cable.DialContext, Lookup: b.cable.Lookup}
	if b.path != nil {
		options.Dial, options.Lookup = b.path.Dial, b.path.Lookup
	}
	b.link = connpool.New(options)
	b.wire = &wire{under: b.link, heard: b.heard}
	client := authority.New(authority.Options{BaseURL: "http://mh", NIT: testNIT, Password: b.password, Ambiente: "00",
		UserAgent: "test", Now: b.now, Transport: b.wire})
	b.engine, err = New(Options{Store: b.store, Signer: sign.New(common(b.t).key), Authority: client,
		Rules:  cmp.Or(b.book, common(b.t).book),
		Issuer: testIssuer(), Logger: b.log, Now: b.now, Reachable: b.link.Ready(),
		DoubtFor: b.doubtFor, Patience: b.patience, Contingency: b.policy, RecoverEvery: cmp.Or(b.every,
			time.Minute), Delivery: b.delivery})
	if err != nil {
		b.link.Close()
		return errors.Join(err, b.store.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.stop, b.done = cancel, done
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if b.path != nil {
			_ = b.link.Run(ctx)
		}
	}()
	go func() {
		defer close(done)
		if err := b.engine.Run(ctx); err != nil {
			b.t.Error(err)
		}
		<-kept
	}()
	return nil
}

// restart ends the branch properly and starts it again with another policy for work without MH.
func (b *box) restart(change func(*contingency.Options)) {
	b.close()
	if change != nil {
		change(&b.policy)
	}
	b.start()
}

// close ends the branch properly.
func (b *box) close() {
	b.t.Helper()
	b.stop()
	<-b.done
	b.link.Close()
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

// fork returns the randomness of a crash: how much of it is used depends on the files' content, and later randomness
// must not.
func fork(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), 0)) }

// crash ends the branch as a power cut does, with a part of the unsynced data, and starts it again.
func (b *box) crash() {
	b.t.Helper()
	after := b.fs.Crash(b.rand.IntN(101), fork(b.rand))
	b.close()
	b.fs = after
	b.start()
}

// at makes fn run before and after every request to MH, until the next start.
func (b *box) at(fn func(point string)) {
	b.wire.mu.Lock()
	defer b.wire.mu.Unlock()
	b.wire.at = fn
}

func (b *box) chaos(c simulator.Chaos) {
	b.t.Helper()
	c.LotMS = 120_000 // MT1: a lot takes one to three minutes
	if err := b.sim.Chaos(c); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) issue(req Request) *record.View {
	b.t.Helper()
	r, err := b.engine.Issue(context.Background(), req)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *box) document(code string) *record.View {
	b.t.Helper()
	r, err := b.engine.Documents().Document(context.Background(), codeOf(&record.View{Code: code}), testCaller(1))
	if err != nil {
		b.t.Fatalf("%s: %v", code, err)
	}
	return r
}

// owedBy counts what a branch has to do now; CountBacklog may be two seconds old.
func owedBy(e *Engine) (*Backlog, error) {
	toMH, err := e.Contingency().CountBacklog()
	if err != nil {
		return nil, err
	}
	o := &Backlog{Backlog: *toMH}
	return o, e.Outbox().CountUndelivered(&o.Delivery)
}

// audit checks what must hold when everything is sent: nothing is owed, each document is the one that MH holds, and MH
// saw no breach.
func (b *box) audit() {
	b.t.Helper()
	owed, err := owedBy(b.engine)
	if err != nil {
		b.t.Fatal(err)
	}
	for queue, n := range owed.Waiting {
		if n != 0 && queue != record.QueueCorrect { // people must act
			b.t.Errorf("%d records wait in queue %s", n, queue)
		}
	}
	for _, breach := range b.sim.Audit() {
		// An event whose answer was lost is sent again, however late: there is no other way to know. If it is refused,
		// its documents go into another event, or would still wait.
		if !strings.Contains(breach, " event ") || !strings.Contains(breach, "came after") {
			b.t.Errorf("MH saw: %s", breach)
		}
	}
	if got := b.sim.Received(); got.Duplicates != 0 && !b.lateness {
		b.t.Errorf("MH received %+v", got)
	}
	held := 0
	for code, a := range b.sim.Accepted() {
		held++
		estado := record.EstadoProcessed
		if a.Invalidated {
			estado = record.EstadoInvalidated
		}
		if r := b.document(code); string(r.JSON) != string(a.Document) || r.Sello != a.Sello || r.Estado != estado {
			b.t.Errorf("%s is %s %s, MH holds %s\n%s\n%s", code, r.Estado, r.Sello, a.Sello, r.JSON, a.Document)
		}
	}
	report, err := b.store.Fsck(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range report.Problems {
		b.t.Errorf("fsck: %v", p)
	}
	if n := documentsOf(report); n < held {
		b.t.Errorf("%d documents, MH holds %d", n, held)
	}
}
