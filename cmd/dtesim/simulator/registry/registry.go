package registry

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
)

// Registry is what MH has received. All methods may be called at once. It calls the hostility while it holds mu; the
// hostility never calls back.
type Registry struct {
	reader    *document.Reader
	hostility *hostility.Hostility
	log       *slog.Logger
	mostLots  int // of cyclic billing, see simulator.Options

	mu    sync.Mutex
	books *books   // guarded by mu
	file  *os.File // see Keep; nil: nothing is kept
}

// New returns one that has received nothing. It takes mostLots of cyclic billing from an issuer in a window; seed makes
// what it draws repeatable.
func New(r *document.Reader, h *hostility.Hostility, mostLots int, seed uint64, log *slog.Logger) *Registry {
	return &Registry{reader: r, hostility: h, log: log, mostLots: mostLots,
		books: newBooks(r, h, rand.New(rand.NewPCG(seed, 0x53494d55)), log)}
}

// Reset forgets everything.
func (s *Registry) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books = newBooks(s.reader, s.hostility, s.books.rand, s.log)
	if s.file == nil {
		return
	}
	if err := errors.Join(s.file.Truncate(0), seek(s.file, 0)); err != nil {
		s.log.Error("what was kept is not forgotten", "error", err)
	}
	s.books.file = s.file
}

// now is MH's time.
func (s *Registry) now() time.Time { return s.hostility.Now() }

// lock is mu with the books brought up to the present: what was to be done by now is done.
func (s *Registry) lock() {
	s.mu.Lock()
	s.books.settleLots(s.now())
}

// arrived notes an attempt. A document whose code was accepted before counts as a duplicate; an event that is sent
// again does not, since MH has no query for one: sending it again is the only way to learn whether it was received.
func (s *Registry) arrived(d *document.Document) {
	s.lock()
	defer s.mu.Unlock()
	d.Turn = s.books.next()
	if d.Code == "" {
		return
	}
	s.books.attempts[d.Code]++
	if s.books.records[d.Code] != nil && !document.IsEvent(d.Tipo) {
		d.Duplicate = true
		s.books.counts.Duplicates++
	}
}

// register takes a document that passed every check into the books and seals it.
func (s *Registry) register(d *document.Document, notes []string) (Answer, *document.Refusal) {
	s.lock()
	defer s.mu.Unlock()
	return s.books.admit(d, notes)
}

// UUID is a UUIDv4 out of the sequence that makes the seals.
func (s *Registry) UUID() [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uuid(s.books.rand)
}
