// Package ship copies a box's second copy into the chain's store, a few seconds after the sales (with Options.Sync,
// before their answers), and fetches it to rebuild a dead box. The copy is a folder of growing files: see Segment.
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
	// Segment reads the start of a file of the copy; file is the file's name. id identifies the file. It is empty if
	// the box's store did not write the file: another box's card may be in the box. after and end are the place from
	// which the file continues the copy; "": the copy begins with the file.
	Segment func(file string, r io.ReaderAt) (id, after string, end int64, err error)
	// Has reports whether the box's store has the last changes that these bytes of a copy contain.
	Has func([]byte) (bool, error)
	// Restart makes the copy begin again, in files whose names come after file.
	Restart func(file string)
	State   fleetproto.File
	Every   time.Duration // default DefaultEvery
	// Sync makes Carry wait, at most for Patience, until the store has the change. If the store takes longer, no Carry
	// waits before the store has caught up.
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
	seen map[string]int64 // sizes of the files at the last Step: the bytes up to there are on the medium by now
	took time.Duration    // how long the last piece took
	all  bool             // the last Step shipped the whole copy
	bell fairqueue.Bell   // rings when a change waits

	mu    sync.Mutex
	state state
	// by epoch: closed once a Step has found no piece in the store after the pieces of the state
	compared map[int64]chan struct{}
	// how many bytes of a file are in the store: for the last file, and for files of this run that the copy still has
	sent    map[string]int64
	checked checked
	at      time.Time // when the last piece was shipped
	why     string    // why shipping has stopped; empty: shipping continues
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
	Head     head   `json:"head,omitzero"`   // of File; zero: not known
	First    string `json:"first,omitempty"` // the file of the first piece; empty: not known
	Cloned   bool   `json:"cloned,omitempty"`
	Whole    bool   `json:"whole,omitempty"` // the whole copy is in the store, and its WholeCopy too
	// Sound lists the parts that checks read back and found valid, each as cargo.shown names it. Joined is the time of
	// the last check.
	Sound  []string  `json:"sound,omitempty"`
	Joined time.Time `json:"joined,omitzero"`
	// Tried are the unanswered attempts to send the next piece. The digest of an attempt identifies its piece in the
	// store, even after a start has voided and rewritten the end of the second copy.
	Tried []try `json:"tried,omitempty"`
}

// head is what Options.Segment returns.
type head struct {
	ID    string `json:"id"`
	After place  `json:"after,omitzero"`
	size  int64  // of the file
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
	s := &Shipper{o: o, seen: make(map[string]int64), sent: make(map[string]int64), bell: fairqueue.NewBell(),
		compared: make(map[int64]chan struct{})}
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

// errOther means that the copy does not continue what was shipped.
var errOther = errors.New("the second copy is missing, or is not the one that was shipped")

// Step ships the copy's new bytes, except bytes of the last file that may not be on the medium yet.
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
	if err := s.compare(ctx); err != nil {
		return err
	}
	live := s.o.Live() // ask before listing the files: the newest file of a copy that is live now is then in the list
	names, err := s.files()
	if err != nil {
		return err
	}
	s.all = true
	last, heads, seen := "", make(map[string]head), make(map[string]int64)
	for _, name := range names {
		if name < s.state.File {
			continue
		}
		h, _, err := s.section(name, "", 0, 0)
		if err != nil {
			return err
		}
		if h.ID == "" {
			s.all = false
			continue
		}
		last, heads[name], seen[name] = name, h, h.size
	}
	follows := last >= s.state.File && cmp.Or(heads[s.state.File].ID, s.state.Head.ID) == s.state.Head.ID
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		h := heads[name]
		follows = follows && (name == s.state.File || !slices.Contains(names, h.After.File) || s.reaches(h.After))
		if !follows {
			break
		}
		until := h.size
		if name == last {
			until = min(until, max(s.seen[name], s.known(name)))
			s.all = s.all && until == h.size
		}
		if err := s.file(ctx, name, h.ID, until); err != nil {
			return err
		}
	}
	if !follows {
		if live && len(names) > 0 {
			s.o.Restart(max(last, s.state.File))
		}
		return fmt.Errorf("%w: no file in %s continues %s, which was shipped last", errOther, s.o.Folder, s.state.File)
	}
	s.seen = seen
	gone := func(name string) bool { return !slices.Contains(names, name) && name != s.state.File }
	s.mu.Lock()
	maps.DeleteFunc(s.sent, func(name string, _ int64) bool { return gone(name) })
	if live && s.all { // in a live copy, later files contain the changes of removed files
		s.arrived(func(p place) bool { return p.File < s.state.File && gone(p.File) })
	}
	s.mu.Unlock()
	if live && s.all && s.state.Number > 0 && !s.state.Whole {
		return s.markWhole(ctx)
	}
	return nil
}

// reaches reports whether the store has the copy up to p, from which a file continues the copy: p lies in the shipped
// bytes of the last shipped file, or that file continues from p too. If nothing was shipped, any p will do.
func (s *Shipper) reaches(p place) bool {
	return s.state.File == "" || p == s.state.Head.After || p.File == s.state.File && p.End <= s.state.Offset
}

func (s *Shipper) files() (names []string, err error) {
	paths, err := filepath.Glob(filepath.Join(s.o.Folder, "*.copy"))
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	slices.Sort(names)
	return names, err
}

// file ships the new bytes of a file, whose head has the id.
func (s *Shipper) file(ctx context.Context, name, id string, until int64) error {
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
		_, body, err := s.section(name, id, from, size)
		if err != nil {
			return err
		}
		if err := s.piece(ctx, name, from, body); err != nil {
			return err
		}
	}
}

// section reads the head of a file, and size bytes at from. If size is not 0, the box's store must have written the
// file, and the head must have id, unless id is empty: since id was read, another card may have been put in.
func (s *Shipper) section(file, id string, from, size int64) (h head, b []byte, err error) {
	f, err := os.Open(filepath.Join(s.o.Folder, file))
	if err != nil {
		return h, nil, fmt.Errorf("reading the second copy: %w", err)
	}
	defer f.Close()
	if h.ID, h.After.File, h.After.End, err = s.o.Segment(file, f); err == nil {
		h.size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil || size == 0 {
		return h, nil, err
	}
	if h.ID != cmp.Or(id, h.ID) || h.ID == "" {
		return h, nil, fmt.Errorf("%w: %s", errOther, file)
	}
	b = make([]byte, size)
	if n, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) || int64(n) < size {
		return h, nil, fmt.Errorf("reading the second copy: %s ends at byte %d: %w", file, from+int64(n), err)
	}
	return h, b, nil
}

// piece creates the next piece. A piece of this number in the store may be from an earlier attempt whose answer was
// lost: it is accepted if this box noted the attempt, or has the same bytes.
func (s *Shipper) piece(ctx context.Context, file string, from int64, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	p := fleetproto.Piece{Branch: s.o.Branch, Epoch: s.state.Epoch, Number: s.state.Number + 1,
		Previous: s.state.Previous, File: file, Offset: from}
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
	return s.save(func(n *state) { n.Tried = append(slices.Clone(n.Tried), t) })
}

func (s *Shipper) adopt(ctx context.Context, p fleetproto.Piece) error {
	l, err := s.chest(p.Epoch).get(ctx, cargo{first: p.Number, last: p.Number})
	if err != nil {
		return fmt.Errorf("the piece of that number cannot be read, or is somebody else's: %w", err)
	}
	if !slices.ContainsFunc(s.state.Tried, func(t try) bool { return t.Digest == l.digest }) {
		_, own, err := s.section(l.file, "", l.offset, int64(len(l.body)))
		if err != nil || l.previous != p.Previous || !bytes.Equal(own, l.body) {
			return s.cloned(p.Number)
		}
	}
	return s.shipped(l)
}

// Compared returns a channel that is closed when this process has found that this box knows all of an epoch's pieces in
// the store. If it does not know a piece with its own signature, Cloned is called and the channel stays open: a copy of
// this box runs, or an old image of the box was put back.
func (s *Shipper) Compared(epoch int64) <-chan struct{} {
	s.bell.Ring()
	return s.comparison(epoch)
}

func (s *Shipper) comparison(epoch int64) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared[epoch] == nil {
		s.compared[epoch] = make(chan struct{})
	}
	return s.compared[epoch]
}

func (s *Shipper) compare(ctx context.Context) (err error) {
	done := s.comparison(s.state.Epoch)
	select {
	case <-done:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for err == nil {
		err = s.adopt(ctx, fleetproto.Piece{Epoch: s.state.Epoch, Number: s.state.Number + 1,
			Previous: s.state.Previous})
	}
	if errors.Is(err, archive.ErrNotFound) {
		s.waitFromNow(s.state.Whole) // the fence admits the first sale when done is closed
		close(done)
		return nil
	}
	return err
}

// cloned stops this shipper for good: another copy of the box has shipped a piece.
func (s *Shipper) cloned(number int64) error {
	s.o.Cloned()
	err := s.save(func(n *state) { n.Cloned = true })
	return errors.Join(fmt.Errorf("%w: piece %d", ErrCloned, number), err)
}

// shipped notes that the store has the next piece.
func (s *Shipper) shipped(l *load) error {
	return s.save(func(n *state) { // if we crash before the state is saved, the piece is adopted
		end := l.end()
		s.at, n.Number, n.Previous, n.Tried, n.File, n.Offset = s.o.Now(), l.number, l.digest, nil, end.File, end.End
		if l.number == 1 {
			n.First = l.file
		}
		if l.offset == 0 {
			h := &n.Head
			h.ID, h.After.File, h.After.End, _ = s.o.Segment(l.file, bytes.NewReader(l.body))
		}
		s.sent[l.file] = n.Offset
		s.arrived(s.has)
	})
}

// find begins an epoch. If the state was lost, shipping continues with the number after the last listed piece, and with
// the bytes after the last piece that has this box's signature. A box whose store lacks that piece's changes is an old
// image. A box with the state of an earlier epoch begins the new epoch without a search. If such a box is an old image
// of itself, and has shipped in the new epoch, compare finds the shipped pieces.
func (s *Shipper) find(ctx context.Context, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := s.chest(epoch)
	n := state{Of: s.state.Of, Epoch: epoch}
	if s.state.Epoch > 0 && s.state.Epoch < epoch {
		return s.begin(n)
	}
	_, end, _, err := c.lastPart(ctx)
	if err != nil {
		return err
	}
	if end != nil {
		n.Number, n.Previous = end.number, end.digest
	}
	numbers, _, err := c.pieceNumbers(ctx, n.Number)
	if err != nil {
		return err
	}
	for i, number := range slices.Backward(numbers) {
		held, err := s.o.Store.Fetch(ctx, fleetproto.SegmentKey(c.branch, epoch, number), maxObject)
		if errors.Is(err, archive.ErrNotFound) || errors.Is(err, archive.ErrUnread) || err != nil && !disproved(err) {
			// listed, but not returned: the piece may be this box's last
			return fmt.Errorf("reading piece %d: %w", number, err)
		}
		if i == len(numbers)-1 {
			n.Number, n.Previous = number, fleetproto.Digest(held.Data)
		}
		if p, body, err := c.chain.OpenPiece(held.Data, c.branch, epoch, 0, number, c.box); err == nil {
			end = &load{file: p.File, offset: p.Offset, body: body}
			break
		}
		if len(numbers)-i > patience {
			break // give up: ship again from the end of the parts
		}
	}
	if end != nil {
		if has, err := s.o.Has(end.body); err != nil {
			return err
		} else if !has {
			return s.cloned(n.Number)
		}
		n.File, n.Offset = end.file, end.end().End
		// The same bytes on the medium prove that the file there is the shipped file.
		h, own, err := s.section(end.file, "", end.offset, int64(len(end.body)))
		if err == nil && bytes.Equal(own, end.body) {
			n.Head = h
		}
	}
	return s.begin(n)
}

func (s *Shipper) begin(n state) error {
	return s.save(func(was *state) { *was, s.sent, s.checked = n, map[string]int64{n.File: n.Offset}, checked{} })
}

func (s *Shipper) chest(epoch int64) chest {
	return chest{store: s.o.Store, chain: s.o.Chain, branch: s.o.Branch, epoch: epoch, box: fleetproto.Public(s.o.Box)}
}

func (s *Shipper) save(change func(*state)) error {
	s.mu.Lock()
	change(&s.state)
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
	gauge("dte_fleet_ship_behind_changes", "Changes that the chain's store lacks: at most these are lost "+
		"with the box and its media.", float64(s.behind()))
	gauge("dte_fleet_shipped_timestamp_seconds", "When something was last shipped; 0: not since the start.",
		max(0, float64(s.at.Unix())))
	gauge("dte_fleet_ship_incomplete", "1 while a rebuild from the chain's store would not be complete, or while that "+
		"could not be checked.", yes[s.checked.lacks != "" || s.checked.failed])
	if s.o.Sync {
		gauge("dte_fleet_ship_sync", "1 while sales wait for the chain's store (ship = \"sync\"); 0 while they go on "+
			"without.", yes[s.carried.live && s.o.Live()])
	}
}
