// Package registry keeps what MH has received and sealed: documents, events, invalidations and lots, the used numbers,
// and what is left of a document after its notes. It makes the decisions that depend on earlier receptions, and lists
// the breaches that a branch committed ([Registry.Audit]). Everything is in memory; [Registry.Keep] adds a file.
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

// Registry keeps what MH has received. It is safe for concurrent use. Its methods call the hostility while they hold
// mu; the hostility never calls the registry.
type Registry struct {
	reader    *document.Reader
	hostility *hostility.Hostility
	log       *slog.Logger
	mostLots  int // most lots of cyclic billing, see simulator.Options

	mu    sync.Mutex
	books *books   // guarded by mu
	file  *os.File // see Keep; nil: nothing is kept
}

// New returns a Registry that has received nothing. It accepts mostLots lots of cyclic billing from an issuer in a
// window. seed makes its seals and identifiers repeatable.
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

// now returns MH's time.
func (s *Registry) now() time.Time { return s.hostility.Now() }

// lock locks mu and brings the books up to date: it finishes the lots that are due.
func (s *Registry) lock() {
	s.mu.Lock()
	s.books.settleLots(s.now())
}

// arrived counts an attempt. A document whose code was accepted before counts as a duplicate. An event sent again does
// not: MH has no query for events, therefore only a repetition shows whether the event was received.
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

// register enters a document that passed every check so far in the books, and seals it.
func (s *Registry) register(d *document.Document, notes []string) (Answer, *document.Refusal) {
	s.lock()
	defer s.mu.Unlock()
	return s.books.admit(d, notes)
}

// UUID returns a UUIDv4 from the random sequence that also makes the seals.
func (s *Registry) UUID() [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uuid(s.books.rand)
}
