// Package ship copies a box's second copy into the chain's store, a few seconds after the sales, and fetches it to
// rebuild a dead box. To this package the copy is a folder of growing files, whose content it does not read.
package ship

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// DefaultEvery is the time between two Steps.
	DefaultEvery = 5 * time.Second
	// Patience is how long a change waits for the chain's store.
	Patience    = 2 * time.Second
	maxPiece    = 4 << 20 // bytes
	askFor      = time.Minute
	checkWithin = 6 * time.Hour // limit for a whole check, and for find
)

// ErrCloned means that the store has a piece with this box's signature but other bytes than this box has: the box's
// disk was copied and both copies run, or an older copy was put back.
var ErrCloned = errors.New("another copy of this box ships under its name")

// File is a small file that is always replaced as a whole.
type File interface {
	Load() ([]byte, error)
	Save([]byte) error
}

// Options of New. Every field without a default is required.
type Options struct {
	Store  fleetproto.Lister
	Chain  fleetproto.Chain
	Branch string
	Box    fleetproto.Signer
	Folder string       // of the second copy
	Epoch  func() int64 // of this box; 0: not enrolled, nothing is shipped yet
	Cloned func()       // called on ErrCloned, and again at each later start
	Live   func() bool  // reports whether the copy has every change of the box's store
	// Restart makes the copy begin again, with file names later than a shipped file's.
	Restart func(file string)
	State   File
	Every   time.Duration // default DefaultEvery
	// Sync makes Carry wait until the store has the change, for Patience at most. If the store takes longer, Carry does
	// not wait until it has caught up.
	Sync bool
	// Count returns how many changes the copy in a folder has after a place: a file's name and an offset in it. Without
	// Count, changes from before the start are not counted.
	Count  func(ctx context.Context, folder, file string, end int64) (int64, error)
	Logger *slog.Logger // default slog.Default
	Now    func() time.Time
}

// Shipper ships the second copy. Only one goroutine may call Step and Run.
type Shipper struct {
	o    Options
	seen map[string]int64 // sizes of the files at the last Step: earlier bytes are synced
	took time.Duration    // how long the last piece took
	all  bool             // the last Step shipped the whole copy
	bell fairqueue.Bell   // rings when a change waits

	mu    sync.Mutex
	state state
	// how many bytes of a file are in the store: for the last file, and for files of this run that the copy still has
	sent    map[string]int64
	checked checked
	at      time.Time // when the last piece was shipped
	why     string    // why shipping has stopped; empty: it continues
	carried carried
}

// state records how much of the copy is in the store. It is saved before and after each piece. A lost state is rebuilt
// from the store.
type state struct {
	Of       string `json:"of"` // the chain, the branch and the box's key
	Epoch    int64  `json:"epoch"`
	Number   int64  `json:"number"`
	Previous string `json:"previous,omitempty"`
	File     string `json:"file,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
	First    string `json:"first,omitempty"` // the file of the first piece; empty: not known
	Cloned   bool   `json:"cloned,omitempty"`
	Whole    bool   `json:"whole,omitempty"` // the whole copy is in the store, and its WholeCopy too
	// Sound are the parts that checks read back and found valid, by cargo.shown; Joined is the time of the last check.
	Sound  []string  `json:"sound,omitempty"`
	Joined time.Time `json:"joined,omitzero"`
	// Tried are the unanswered attempts to send the next piece. The store may have any of them. The copy may have lost
	// their bytes since: a start voids the end of the copy and writes it again.
	Tried []try `json:"tried,omitempty"`
}

// try is one attempt to send a piece.
type try struct {
	Digest string `json:"digest"` // of the object
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// New returns a shipper that continues where the last shipper stopped.
func New(o Options) (*Shipper, error) {
	o.Every, o.Logger = cmp.Or(o.Every, DefaultEvery), cmp.Or(o.Logger, slog.Default())
	s := &Shipper{o: o, seen: make(map[string]int64), sent: make(map[string]int64), bell: fairqueue.NewBell()}
	b, err := o.State.Load()
	if err != nil {
		return nil, fmt.Errorf("reading how far the copy was shipped: %w", err)
	}
	of := fmt.Sprint(o.Chain, o.Branch, fleetproto.EncodeKey(fleetproto.Public(o.Box).Public))
	if json.Unmarshal(b, &s.state) != nil || s.state.Of != of {
		s.state = state{Of: of} // find will search the store for the last piece
	}
	s.sent[s.state.File] = s.state.Offset
	if s.state.Cloned {
		o.Cloned()
	}
	return s, nil
}

// Run works until ctx ends.
func (s *Shipper) Run(ctx context.Context) error {
	defer s.leave("the box is stopping")
	var checks sync.WaitGroup
	checks.Go(func() { s.checks(ctx) })
	defer checks.Wait()
	s.recount(ctx)
	look := time.NewTicker(s.o.Every)
	defer look.Stop()
	for {
		err := s.Step(ctx)
		s.note(err)
		s.caughtUp(err)
		select {
		case <-ctx.Done():
			return nil
		case <-s.bell:
		case <-look.C:
		}
	}
}

// note keeps the error of the last Step (nil: it succeeded), and logs the first of several errors in a row.
func (s *Shipper) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.why
	if s.why = ""; err != nil {
		if s.why = err.Error(); before == "" {
			s.o.Logger.Warn("the second copy is not shipped to the chain's store", "error", err)
		}
	}
}

// Shipped returns how much of the copy is in the store.
func (s *Shipper) Shipped() *fleetproto.Shipped {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode := "async"
	if s.o.Sync {
		mode = "sync"
	}
	why := s.why
	if why == "" && s.state.Epoch > 0 && !s.o.Live() {
		why = "the second copy does not hold everything: what it lacks is not shipped, and not counted"
	}
	if why == "" && s.o.Sync && !s.carried.live {
		why = "sales do not wait for the store: it is not caught up yet, or slow"
	}
	return &fleetproto.Shipped{Mode: mode, Segment: s.state.Number, At: s.at.UTC(), Behind: s.behind(), Why: why,
		Checked: s.checked.at.UTC(), Lacks: s.checked.lacks}
}

// errBefore means that the copy is not the shipped one: no file's name is later than that of the last shipped file.
var errBefore = errors.New("the second copy is gone, or was begun anew under names that were given before")

// Step ships the bytes that the copy had at the last Step; newer bytes may not be on the medium yet.
func (s *Shipper) Step(ctx context.Context) error {
	epoch := s.o.Epoch()
	s.mu.Lock()
	cloned := s.state.Cloned // Check may have set it
	s.mu.Unlock()
	switch {
	case cloned:
		return ErrCloned
	case epoch == 0:
		return nil
	case s.state.Epoch != epoch:
		s.leave("the box ships under another epoch, from the beginning")
		if err := s.find(ctx, epoch); err != nil {
			return err
		}
		s.recount(ctx)
	}
	live := s.o.Live() // ask before the files are listed: Step ships what the copy has now
	paths, err := filepath.Glob(filepath.Join(s.o.Folder, "*.copy"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	if n := len(paths); s.state.File != "" && (n == 0 || filepath.Base(paths[n-1]) < s.state.File) {
		if n > 0 {
			s.o.Restart(s.state.File)
		}
		return fmt.Errorf("%w: %s was shipped last, and no file in %s has a later name", errBefore, s.state.File,
			s.o.Folder)
	}
	sizes := make(map[string]int64)
	s.all = true
	for i, path := range paths {
		name := filepath.Base(path)
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("looking at the second copy: %w", err)
		}
		sizes[name] = info.Size()
		if name < s.state.File {
			continue
		}
		until := info.Size()
		if i == len(paths)-1 {
			until = min(until, max(s.seen[name], s.known(name)))
			s.all = until == info.Size()
		}
		if err := s.file(ctx, path, until); err != nil {
			return err
		}
	}
	s.seen = sizes
	gone := func(name string) bool { _, there := sizes[name]; return !there && name != s.state.File }
	s.mu.Lock()
	maps.DeleteFunc(s.sent, func(name string, _ int64) bool { return gone(name) })
	if live && s.all { // in a live copy, later files contain the changes of removed files
		s.arrived(func(p place) bool { return p.file < s.state.File && gone(p.file) })
	}
	s.mu.Unlock()
	if live && s.all && s.state.Number > 0 && !s.state.Whole {
		return s.markWhole(ctx)
	}
	return nil
}

// file ships the new bytes of a file.
func (s *Shipper) file(ctx context.Context, path string, until int64) error {
	name := filepath.Base(path)
	for {
		from := int64(0)
		if name == s.state.File {
			from = s.state.Offset
		}
		if from >= until {
			return nil
		}
		size := min(until-from, maxPiece)
		for _, t := range s.state.Tried {
			if t.File == name && t.Offset == from {
				size = min(size, t.Size) // send the same piece again
			}
		}
		body, err := section(path, from, size)
		if err != nil {
			return err
		}
		if err := s.piece(ctx, path, from, body); err != nil {
			return err
		}
	}
}

func section(path string, from, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the second copy: %w", err)
	}
	defer f.Close()
	b := make([]byte, size)
	if n, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) || int64(n) < size {
		return nil, fmt.Errorf("reading the second copy: %s ends at byte %d: %w", path, from+int64(n), err)
	}
	return b, nil
}

// piece creates the next piece. A piece of this number in the store may be from an earlier attempt whose answer was
// lost: it is accepted if this box noted the attempt, or has the same bytes.
func (s *Shipper) piece(ctx context.Context, path string, from int64, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	p := fleetproto.Piece{Branch: s.o.Branch, Epoch: s.state.Epoch, Number: s.state.Number + 1,
		Previous: s.state.Previous, File: filepath.Base(path), Offset: from}
	data, err := s.o.Chain.SealPiece(p, body, s.o.Box)
	if err != nil {
		return err
	}
	l := &load{number: p.Number, file: p.File, offset: from, body: body, digest: fleetproto.Digest(data)}
	if err := s.noteTry(try{l.digest, l.file, from, int64(len(body))}); err != nil {
		return err
	}
	began := s.o.Now()
	err = s.o.Store.Create(ctx, fleetproto.SegmentKey(p.Branch, p.Epoch, p.Number), data)
	s.took = s.o.Now().Sub(began)
	if errors.Is(err, archive.ErrExists) {
		return s.adopt(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("shipping piece %d: %w", p.Number, err)
	}
	return s.shipped(l)
}

// noteTry saves an attempt before it is sent, so that the box recognises its own piece even if the copy loses the
// bytes.
func (s *Shipper) noteTry(t try) error {
	if slices.Contains(s.state.Tried, t) {
		return nil
	}
	s.mu.Lock()
	s.state.Tried = append(slices.Clone(s.state.Tried), t)
	s.mu.Unlock()
	return s.save()
}

func (s *Shipper) adopt(ctx context.Context, p fleetproto.Piece) error {
	l, err := s.chest(p.Epoch).get(ctx, cargo{first: p.Number, last: p.Number})
	if err != nil {
		return fmt.Errorf("the piece of that number cannot be read, or is somebody else's: %w", err)
	}
	if !slices.ContainsFunc(s.state.Tried, func(t try) bool { return t.Digest == l.digest }) {
		own, err := section(filepath.Join(s.o.Folder, l.file), l.offset, int64(len(l.body)))
		if err != nil || l.previous != p.Previous || !bytes.Equal(own, l.body) {
			return s.cloned(p.Number)
		}
	}
	return s.shipped(l)
}

// cloned stops this shipper for good: another copy of the box has shipped a piece.
func (s *Shipper) cloned(number int64) error {
	s.mu.Lock()
	s.state.Cloned = true
	s.mu.Unlock()
	s.o.Cloned()
	return errors.Join(fmt.Errorf("%w: piece %d", ErrCloned, number), s.save())
}

// shipped notes that the store has the next piece.
func (s *Shipper) shipped(l *load) error {
	s.mu.Lock()
	s.at = s.o.Now()
	n, end := &s.state, l.end()
	n.Number, n.Previous, n.Tried, n.File, n.Offset = l.number, l.digest, nil, end.file, end.end
	if l.number == 1 {
		n.First = l.file
	}
	s.sent[l.file] = n.Offset
	s.arrived(s.has)
	s.mu.Unlock()
	return s.save() // if we crash before this line, the piece is adopted
}

// find begins an epoch. If the state was lost, shipping continues after the epoch's last piece with this box's
// signature. A clone would have a copy of the state, so a box without one is no clone.
func (s *Shipper) find(ctx context.Context, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := s.chest(epoch)
	n := state{Of: s.state.Of, Epoch: epoch}
	_, end, _, err := c.lastPart(ctx)
	if err != nil {
		return err
	}
	if end != nil {
		n.Number, n.Previous, n.File, n.Offset = end.number, end.digest, end.file, end.end().end
	}
	numbers, _, err := c.pieceNumbers(ctx, n.Number)
	if err != nil {
		return err
	}
	for i, number := range slices.Backward(numbers) {
		held, err := s.o.Store.Fetch(ctx, fleetproto.SegmentKey(c.branch, epoch, number), maxObject)
		if errors.Is(err, archive.ErrNotFound) || err != nil && !disproved(err) { // listed, but not returned
			return fmt.Errorf("reading piece %d: %w", number, err)
		}
		if i == len(numbers)-1 {
			n.Number, n.Previous = number, fleetproto.Digest(held.Data)
		}
		if p, body, err := c.chain.OpenPiece(held.Data, c.branch, epoch, 0, number, c.box); err == nil {
			n.File, n.Offset = p.File, p.Offset+int64(len(body))
			break
		}
		if len(numbers)-i > patience {
			break // give up: ship again from the end of the parts
		}
	}
	if n.Number > 0 {
		if g, err := c.get(ctx, cargo{first: 1, last: 1}); err == nil {
			n.First = g.file
		}
	}
	s.mu.Lock()
	s.state, s.sent, s.checked = n, map[string]int64{n.File: n.Offset}, checked{}
	s.mu.Unlock()
	return s.save()
}

func (s *Shipper) chest(epoch int64) chest {
	return chest{store: s.o.Store, chain: s.o.Chain, branch: s.o.Branch, epoch: epoch, box: fleetproto.Public(s.o.Box)}
}

func (s *Shipper) save() error {
	s.mu.Lock()
	b, err := json.Marshal(s.state)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.o.State.Save(b)
}

// Collect is a prometheus.CollectorFunc.
func (s *Shipper) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := func(name, help string, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, v)
	}
	yes := map[bool]float64{true: 1}
	gauge("dte_fleet_ship_behind_changes", "Changes of the store that the chain's store does not have: what is lost, "+
		"at most, when the box and its media are.", float64(s.behind()))
	gauge("dte_fleet_shipped_timestamp_seconds", "When something was last shipped; 0: not since the start.",
		max(0, float64(s.at.Unix())))
	gauge("dte_fleet_ship_incomplete", "1 while a rebuild from the chain's store would not be complete, or while that "+
		"could not be checked.", yes[s.checked.lacks != "" || s.checked.failed])
	if s.o.Sync {
		gauge("dte_fleet_ship_sync", "1 while sales wait for the chain's store (ship = \"sync\"); 0 while they go on "+
			"without.", yes[s.carried.live && s.o.Live()])
	}
}
