package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

// Branch is the state of one branch according to the store.
type Branch struct {
	Name      string
	Enrolment *fleetproto.Enrolment // the highest epoch; nil: no box is enrolled
	// Status is the report of the branch's box or, without an enrolment, of a box that could be enrolled; nil: there is
	// no credible report.
	Status *fleetproto.Status
	// Stranger is the report of another box that waits to replace the enrolled box.
	Stranger *fleetproto.Status
	Former   int64 // epoch of a replaced box that still reports; 0: none
	// Seen is when the status was written, by the store's or the box's clock, whichever is earlier. Zero: no status.
	Seen time.Time
	// Older is why the newest status that the centre has seen is not in the store; "": it is there.
	Older string
	// Lost is what to do about an enrolment that the centre has seen and the store has lost or altered; "": none.
	Lost string
	// Concerns are the branch's concerns, worst first.
	Concerns []Concern
}

// Group returns the group in the branch's enrolment or, without an enrolment, in its status.
func (b *Branch) Group() string {
	if b.Enrolment != nil {
		return b.Enrolment.Group
	}
	return cmp.Or(b.Status, new(fleetproto.Status)).Group
}

// epoch returns the epoch of the branch's box; 0: no box is enrolled.
func (b *Branch) epoch() int64 { return cmp.Or(b.Enrolment, new(fleetproto.Enrolment)).Epoch }

// Survey is the state of a chain at a moment.
type Survey struct {
	At       time.Time // by the store's clock
	Branches []*Branch // worst first; among equals, the earliest legal deadline first
	Groups   []*Version
	// Faults are faults of the store as a whole, or of one group.
	Faults []string
	apart  time.Duration // difference between this machine's clock and the store's
}

// Lost returns the number of branches for which the store has lost an object or shows an older one, plus the number of
// Faults.
func (s *Survey) Lost() (n int) {
	for _, b := range s.Branches {
		if b.doubtful() {
			n++
		}
	}
	return n + len(s.Faults)
}

// doubtful reports whether the store has lost an object of a branch, or shows an older one.
func (b *Branch) doubtful() bool { return b.has("older", "acts", "version") }

// Desired returns the last version of a group; nil if none was read.
func (s *Survey) Desired(group string) *Version {
	if i := slices.IndexFunc(s.Groups, func(v *Version) bool { return v.Group == group }); i >= 0 {
		return s.Groups[i]
	}
	return nil
}

// overlaps finds each point of sale that belongs to two branches.
func (s *Survey) overlaps() {
	held := make(map[fleetproto.Point]*Branch)
	for _, b := range s.Branches {
		if b.Enrolment == nil {
			continue
		}
		for _, p := range b.Enrolment.Points {
			if o := held[p]; o != nil && o != b {
				o.add(Bad, "overlap", p.String()+" "+b.Name)
				b.add(Bad, "overlap", p.String()+" "+o.Name)
			}
			held[p] = b
		}
	}
}

// Surveyor reads a chain repeatedly; it reads only the statuses that have changed. It is for one goroutine.
type Surveyor struct {
	Chain      *Chain
	enrolments *enrolments
	// Accept names branches whose loss in the store somebody has checked: the centre forgets what it has seen of them.
	Accept []string
	seen   map[string]seen
	skew   atomic.Int64     // how far the store's clock is ahead of this machine's, in ns
	before map[string]known // statuses of the last survey, by key

	mu       sync.Mutex
	statuses map[string]known  // statuses of the survey under way
	lost     map[string][]byte // the lost enrolments that this centre has kept, by key
}

// written lists the status objects of a branch: of the enrolled box (own), of a box that waits to be enrolled, and the
// latest of a replaced box (former).
type written struct {
	enrolled             int64 // the epoch of the branch's box; 0: none
	own, waiting, former archive.Object
}

func (w *written) add(e archive.Object, epoch int64) {
	switch {
	case epoch == w.enrolled:
		w.own = e
	case epoch == 0:
		w.waiting = e
	case epoch < w.enrolled && (w.former.Key == "" || e.Modified.After(w.former.Modified)):
		w.former = e
	}
}

// known is a status that was read. It is current while the object's tag and the enrolled epoch are the same.
type known struct {
	tag      string
	enrolled int64
	status   *fleetproto.Status
	fault    string // why the status is not authentic
}

// NewSurveyor returns a surveyor that has read nothing yet.
func NewSurveyor(c *Chain) *Surveyor {
	return &Surveyor{Chain: c, enrolments: newEnrolments(c), seen: make(map[string]seen)}
}

// Limits of a survey: a store's list may never end, and anybody who can write to the store can add groups, statuses
// without an enrolment, and objects in a branch's folder.
const (
	surveyWithin = 5 * time.Minute
	maxWaiting   = 1000
	maxGroups    = 200
	maxObjects   = 1000
)

func (s *Surveyor) Read(ctx context.Context) (*Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	out := &Survey{}
	var remembered map[string]seen
	if err := s.Chain.recall(seenFile, &remembered); err != nil {
		out.fault("%v", err)
	} else if remembered != nil {
		s.seen = remembered
	}
	epochs, err := s.enrolments.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing enrolments: %w", err)
	}
	statuses := make(map[string]*written)
	for name := range s.seen { // the store may have lost the whole branch
		statuses[name] = new(written)
	}
	for name, epoch := range epochs { // even a branch whose enrolled box never reported
		statuses[name] = &written{enrolled: epoch}
	}
	waiting := 0
	for after, filled := "", true; filled; { // list again, from the end of a folder that has too many objects
		filled = false
		folder, n := "", 0
		for e, err := range s.Chain.Store.ListAfter(ctx, fleetproto.StatusFolder, after) {
			if err != nil {
				return nil, fmt.Errorf("listing statuses: %w", err)
			}
			name, epoch, ok := fleetproto.StatusOf(e.Key)
			if name != folder {
				folder, n = name, 0
			}
			if n++; n > maxObjects {
				out.fault("%s has more than %d objects: change the branch's credentials; the store's owner must "+
					"delete them", fleetproto.StatusFolder+name, maxObjects)
				after, filled = fleetproto.StatusFolder+name+"0", true // "0" follows "/" in ASCII
				break
			}
			if ok && statuses[name] == nil {
				if waiting++; waiting > maxWaiting {
					continue
				}
				statuses[name] = new(written)
			}
			if ok {
				statuses[name].add(e, epoch)
			}
		}
	}
	if out.Branches, err = s.branches(ctx, statuses); err != nil {
		return nil, err
	}
	s.newest(out.Branches)
	if s.lost = s.enrolments.lost(); len(s.lost) > 0 {
		out.fault("the store has lost %s: dtectl fleet roll puts it back, unless something newer is in its place",
			strings.Join(slices.Sorted(maps.Keys(s.lost))[:min(len(s.lost), 5)], ", "))
	}
	if waiting > maxWaiting {
		out.fault("%d branches that nobody enrolled have a status: %d of them are shown", waiting, maxWaiting)
	}
	out.overlaps()
	for _, look := range []func(context.Context, *Survey) error{s.groups, s.compareVersions, s.lookForActs} {
		if err := look(ctx, out); err != nil {
			return nil, err
		}
	}
	if err := s.Chain.remember(seenFile, s.seen); err != nil {
		out.fault("%v", err)
	}
	out.At = s.Chain.Now().Add(time.Duration(s.skew.Load()))
	if out.apart = out.At.Sub(s.Chain.Now()).Abs(); out.apart > maxDelay {
		out.fault("the clocks of this machine and of the store are %s apart: a silent branch may look alive",
			dte.Span(out.apart))
	}
	out.judge()
	return out, nil
}

func (s *Survey) fault(format string, args ...any) {
	s.Faults = append(s.Faults, fmt.Sprintf(format, args...))
}

func (s *Surveyor) groups(ctx context.Context, out *Survey) error {
	groups, err := s.Chain.Groups(ctx)
	if err != nil {
		return fmt.Errorf("listing groups: %w", err)
	}
	if len(groups) > maxGroups {
		own := s.Chain.keptGroups()
		for _, b := range out.Branches {
			if b.Enrolment != nil && !slices.Contains(own, b.Enrolment.Group) {
				own = append(own, b.Enrolment.Group)
			}
		}
		out.fault("the store has %d groups: only those that this centre kept or that have a branch are read",
			len(groups))
		groups = slices.DeleteFunc(groups, func(g string) bool { return !slices.Contains(own, g) })
	}
	for _, g := range groups {
		head, err := s.Chain.Head(ctx, g)
		switch {
		case alone(err):
			out.fault("the order for %s is not authentic: %v", g, err)
		case err != nil:
			return fmt.Errorf("reading the order for %s: %w", g, err)
		case head == nil:
			out.fault("the store has lost the order for %s: dtectl fleet roll puts it back", g)
		default:
			out.Groups = append(out.Groups, head)
		}
	}
	return nil
}

func (s *Surveyor) branches(ctx context.Context, statuses map[string]*written) ([]*Branch, error) {
	names := slices.Sorted(maps.Keys(statuses))
	list := make([]*Branch, len(names))
	s.statuses = make(map[string]known, len(names))
	err := together(len(names), func(i int) (err error) {
		list[i], err = s.branch(ctx, names[i], statuses[names[i]])
		return err
	})
	if err == nil {
		s.before = s.statuses
	}
	return list, err
}

// branch reads a branch's statuses and assigns them to its boxes. An error of the store is returned; a bad object
// becomes a concern.
func (s *Surveyor) branch(ctx context.Context, name string, w *written) (b *Branch, err error) {
	b = &Branch{Name: name}
	var box []fleetproto.Key
	if w.enrolled > 0 {
		if b.Enrolment, err = s.enrolments.get(ctx, name, w.enrolled); err != nil {
			return nil, err
		}
		box = []fleetproto.Key{b.Enrolment.BoxKeyOf()}
	}
	own, err := s.status(ctx, w.own, w.enrolled, box...)
	if err != nil {
		return nil, err
	}
	b.Status, b.Seen = own.status, earlier(w.own.Modified, own.status)
	if own.fault != "" {
		b.add(Bad, "forged", own.fault)
	}
	if b.Enrolment == nil {
		return b, nil
	}
	if delay := w.own.Modified.Sub(b.Seen); b.Status != nil && delay > maxDelay {
		b.add(Warning, "delay", dte.Span(delay))
	}
	if waiting, err := s.status(ctx, w.waiting, w.enrolled); err != nil {
		return nil, err
	} else if waiting.status != nil && waiting.status.Key != b.Enrolment.Key {
		if b.Former, err = s.former(ctx, name, w.enrolled, waiting.status.Key); err != nil {
			return nil, err
		}
		if b.Former == 0 {
			b.Stranger = waiting.status
		}
	} else if early := waiting.status; early != nil && (b.Seen.IsZero() || b.Status != nil &&
		early.At.After(b.Status.At) && w.waiting.Modified.After(w.own.Modified)) {
		// the box wrote this status before its enrolment, or the box is an image of its disk from that time
		b.Status, b.Seen = early, earlier(w.waiting.Modified, early)
	}
	// the replaced box may still run
	if w.former.Modified.After(b.Enrolment.At) && w.own.Modified.Sub(w.former.Modified) < lostAfter {
		former, err := s.status(ctx, w.former, w.enrolled)
		if err != nil {
			return nil, err
		}
		if former.status != nil && former.status.Key != b.Enrolment.Key && former.status.At.After(b.Enrolment.At) {
			b.Former = former.status.Epoch
		}
	}
	return b, nil
}

// maxDelay is how long after its signature a status may be written, and how far apart two clocks may be.
const maxDelay = 10 * time.Minute

// earlier returns a status's signed time or its object's time, whichever is earlier: writing an old status again makes
// only the object new.
func earlier(written time.Time, s *fleetproto.Status) time.Time {
	if s != nil && s.At.Before(written) {
		return s.At
	}
	return written
}

// newest compares the statuses of enrolled branches with those seen so far, and keeps the newest numbers. It discards a
// status that is older or that a clone wrote, and any status while the store lacks an enrolment that was seen.
func (s *Surveyor) newest(branches []*Branch) {
	for _, b := range branches {
		m, sequence, at, epoch := s.seen[b.Name], int64(0), time.Time{}, b.epoch()
		if b.Status != nil && epoch > 0 && b.Status.Epoch == epoch {
			sequence, at = b.Status.Sequence, b.Status.At
		}
		if slices.Contains(s.Accept, b.Name) {
			m = seen{Epoch: epoch, Sequence: sequence, At: at}
			if b.Status != nil {
				m.Acts = b.Status.Acts
			}
		}
		older := ""
		switch n := s.enrolments.unread[b.Name]; {
		case n > 0:
			older = fmt.Sprintf("the store lists the enrolment of epoch %d and does not return it", n)
			b.Lost = older + ": the store's owner must let the centre's account read it, or restore it, or overwrite " +
				"it with other bytes; who deletes it leaves a gap, and boxes find no enrolment after a gap"
		case m.Epoch > epoch:
			older = fmt.Sprintf("the store has lost the enrolment of epoch %d", m.Epoch)
			b.Lost = older + ": put it back from the store's versions, or dtectl fleet status --accept " + b.Name
			if s.enrolments.tags[fleetproto.BoxKey(b.Name, m.Epoch)] != "" {
				b.Lost = fmt.Sprintf("director.public has not signed the enrolment of epoch %d: if the key is being "+
					"changed, run dtectl fleet rekey; if its --except left the enrolment out, accept that with dtectl "+
					"fleet status; else put it back from the store's versions", m.Epoch)
				older = b.Lost
			}
		case m.Epoch < epoch:
			m.Epoch, m.Sequence, m.At, m.Twice = epoch, sequence, at, false
		case sequence == 0 && m.Sequence > 0 && (b.Status == nil || !b.Status.At.After(m.At)):
			older = fmt.Sprintf("the store has lost its status: number %d was seen", m.Sequence)
		case sequence > 0 && sequence < m.Sequence:
			older = fmt.Sprintf("number %d is in the store, and number %d was seen", sequence, m.Sequence)
		// a box never assigns a number twice
		case m.Twice, sequence > 0 && sequence == m.Sequence && !m.At.IsZero() && !at.Equal(m.At):
			m.Twice = true
			older = "two boxes with one key write it: one is a copy of the other's disk"
		case sequence > 0:
			m.Sequence, m.At = sequence, at
		}
		if b.Older = older; older != "" {
			b.Status = nil
			if b.Lost != "" || !b.has("forged") { // a thief of the branch's credentials alone keeps no ring shut
				b.add(Bad, "older", older)
			}
		}
		if s.seen[b.Name] = m; m.Epoch == 0 {
			delete(s.seen, b.Name)
		}
	}
}

// compareVersions finds the versions that a box or this centre has, but the store lacks.
func (s *Surveyor) compareVersions(ctx context.Context, out *Survey) error {
	for _, v := range out.Groups {
		if v.Hole > 0 {
			out.fault("the store has lost version %d of %s, and new boxes stop there: dtectl fleet roll puts it back "+
				"if this centre has kept it; otherwise put it back from the store's versions", v.Hole, v.Group)
		}
		if v.Unread > 0 {
			out.fault("the store lists version %d of %s and does not return it: what it orders is not known. Until "+
				"dtectl fleet roll puts it back, if this centre has kept it, or the store's owner restores or deletes "+
				"it, roll opens no ring", v.Unread, v.Group)
		}
		for _, n := range s.Chain.keptVersions(v.Group) {
			if n < v.Last.Version || n > v.Last.Version+maxMends { // earlier, or so far above that a thief wrote it
				continue
			}
			data, err := s.Chain.kept(v.Group, n)
			held := fleetproto.Verified{Version: n, Digest: fleetproto.Digest(data)}
			if err == nil && held != v.Last {
				v.Lost = append(v.Lost, held)
			}
		}
		if len(v.Lost) > 0 {
			out.fault("the store has lost version %d of %s: dtectl fleet roll puts it back, or mends it",
				v.Lost[0].Version, v.Group)
		}
	}
	reach := make(map[string]bool) // whether a box with a version can continue, by group and version
	for _, b := range out.Branches {
		v := out.Desired(b.Group())
		if v == nil || b.Enrolment == nil || b.Status == nil || b.Status.Group != v.Group ||
			b.Status.Desired.Digest == "" {
			continue
		}
		held := fleetproto.Verified{Version: b.Status.Desired.Version, Digest: b.Status.Desired.Digest}
		if goes, err := s.Chain.reaches(ctx, v, held, reach); err != nil {
			return err
		} else if goes {
			continue
		}
		b.add(Bad, "version", held.Version)
		// The order that mends a version gets a higher number. Repeated claims of one lying box must not raise the
		// number without limit.
		far := int64(maxMends)
		if !slices.ContainsFunc(out.Branches, func(o *Branch) bool {
			return o != b && o.Enrolment != nil && o.Status != nil && o.Status.Desired.Version == held.Version &&
				o.Status.Desired.Digest == held.Digest
		}) {
			far /= int64(1 + len(v.Mends))
		}
		if held.Version <= v.Last.Version+far && !slices.Contains(v.Lost, held) &&
			len(v.Lost)+len(v.Mends) < maxForeignVersions {
			v.Lost = append(v.Lost, held)
		}
	}
	return nil
}

// reaches reports whether a box with the version held can continue: held is the head v, v mends held, or the store's
// next objects follow held without a break, up to a version that the director signed, or up to v.Last. After maxMends
// objects it returns true: an earlier key may have signed many. known has the results of earlier calls.
func (c *Chain) reaches(ctx context.Context, v *Version, held fleetproto.Verified, known map[string]bool) (goes bool,
	err error) {
	if slices.Contains(v.Mends, held) || held == (fleetproto.Verified{Version: v.Version, Digest: v.Digest}) {
		return true, nil
	}
	var looked []string
	defer func() {
		for _, at := range looked {
			known[at] = goes
		}
	}()
	for held.Version < v.Last.Version {
		at := fmt.Sprint(v.Group, held)
		if goes, ok := known[at]; ok || len(looked) == maxMends {
			return goes || !ok, nil
		}
		looked = append(looked, at)
		n := held.Version + 1
		o, err := c.Store.Fetch(ctx, fleetproto.DesiredKey(v.Group, n), fleetproto.MaxJWS)
		if err != nil && !alone(err) {
			return false, fmt.Errorf("reading version %d of %s: %w", n, v.Group, err)
		}
		if d, err := c.Identity.ReadDesired(o.Data, v.Group, n); err != nil || d.Follows(held) != nil {
			return false, nil
		}
		if _, err := c.Identity.OpenDesired(o.Data, c.keys(), v.Group, n); err == nil {
			return true, nil
		}
		held = fleetproto.Verified{Version: n, Digest: fleetproto.Digest(o.Data)}
	}
	return held == v.Last, nil
}

// maxActs is how many acts of a branch one survey looks for; the next survey continues after them.
const maxActs = 200

// lookForActs looks for the acts that branches have written since the last survey. Their numbers have no gaps.
func (s *Surveyor) lookForActs(ctx context.Context, out *Survey) error {
	var grown []*Branch
	for _, b := range out.Branches {
		if b.Enrolment != nil && b.Status != nil && b.Status.Acts > s.seen[b.Name].Acts {
			grown = append(grown, b)
		}
	}
	looked := make([]seen, len(grown))
	err := together(len(grown), func(i int) error {
		b, m, listed := grown[i], s.seen[grown[i].Name], make(map[string]bool)
		last := min(b.Status.Acts, m.Acts+maxActs)
		for e, err := range s.Chain.Store.ListAfter(ctx, fleetproto.ActsFolder+b.Name+"/",
			fleetproto.ActKey(b.Name, m.Acts)) {
			if err != nil {
				return fmt.Errorf("listing acts: %w", err)
			}
			if e.Key > fleetproto.ActKey(b.Name, last) || len(listed) == maxObjects {
				break
			}
			listed[e.Key] = true
		}
		for n := m.Acts + 1; n <= last && len(m.Missing) < maxMissing; n++ {
			if key := fleetproto.ActKey(b.Name, n); !listed[key] {
				// if the store has the act, the list lags
				_, err := s.Chain.Store.Fetch(ctx, key, fleetproto.MaxJWS)
				if errors.Is(err, archive.ErrNotFound) {
					m.Missing = append(m.Missing, n)
				} else if err != nil && !errors.Is(err, archive.ErrTooLarge) {
					return fmt.Errorf("reading act %d of %s: %w", n, b.Name, err)
				}
			}
		}
		m.Acts = last
		looked[i] = m
		return nil
	})
	if err != nil {
		return err
	}
	for i, b := range grown {
		s.seen[b.Name] = looked[i]
	}
	for _, b := range out.Branches {
		if missing := s.seen[b.Name].Missing; len(missing) > 0 && b.Enrolment != nil {
			b.add(Bad, "acts", strings.Trim(fmt.Sprint(missing), "[]"))
		}
	}
	return nil
}

// status reads a written status. The result is zero if there is no status.
func (s *Surveyor) status(ctx context.Context, e archive.Object, enrolled int64, box ...fleetproto.Key) (k known,
	err error) {
	if e.Key == "" {
		return k, nil
	}
	if k = s.before[e.Key]; e.Tag == "" || k.tag != e.Tag || k.enrolled != enrolled {
		o, err := s.Chain.Store.Fetch(ctx, e.Key, fleetproto.MaxJWS)
		if err != nil && !alone(err) {
			return k, fmt.Errorf("reading %s: %w", e.Key, err)
		}
		k = known{tag: e.Tag, enrolled: enrolled}
		if errors.Is(err, archive.ErrUnread) { // ask again at the next survey
			k.tag = ""
		}
		if err == nil {
			name, epoch, _ := fleetproto.StatusOf(e.Key)
			k.status, err = s.Chain.Identity.OpenStatus(o.Data, name, epoch, box...)
		}
		if err != nil {
			k.status, k.fault = nil, err.Error()
		}
		if !o.Now.IsZero() {
			s.skew.Store(int64(o.Now.Sub(s.Chain.Now())))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[e.Key] = k
	return k, nil
}

// former returns the latest epoch before the given one in which the branch's box had the given key; 0 if no earlier box
// had this key.
func (s *Surveyor) former(ctx context.Context, name string, epoch int64, key string) (int64, error) {
	for _, n := range s.enrolments.of(name) {
		e, err := s.enrolments.get(ctx, name, n)
		switch {
		case err != nil && !alone(err):
			return 0, err
		case err == nil && e.Key == key && n < epoch:
			return n, nil
		}
	}
	return 0, nil
}
