package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/enginetest"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/engine/record"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// This file is what goes wrong with media, with the chain's store and with clocks in a chain's month, and a person who
// does what the runbook says.

// Media of a box: its store's disk, which holds what the agent and the shipper remember too, its mark's and its copy's.
const onDisk, onMark, onCopy = "/data", "/mark", copyFolder

// image is what the media of a box held once.
type image struct {
	of              *chainBox
	fs              *disktest.Disk
	agent, shipping []byte
}

// tell logs a step; DTE_LOG shows it.
func (c *network) tell(format string, args ...any) {
	if os.Getenv("DTE_LOG") != "" {
		c.t.Logf("%v "+format, append([]any{time.Now().Format(time.DateTime)}, args...)...)
	}
}

// media is an image of a box that is off.
func (m *chainBox) media() *image {
	agent, err := m.disk.Load()
	shipping, bad := m.shipping.Load()
	m.site.must(errors.Join(err, bad))
	return &image{m, m.Fs.Copy(), agent, shipping}
}

// put gives a box that is off media of an image; nil: empty ones.
func (m *chainBox) put(from *image, media ...string) {
	for _, medium := range media {
		var disk *disktest.Disk
		if from != nil {
			disk = from.fs
		}
		m.site.must(putMedium(m.Fs, disk, medium))
		if from != nil && medium == onDisk {
			m.disk, m.shipping = &fleettest.File{}, &fleettest.File{}
			m.site.must(errors.Join(m.disk.Save(from.agent), m.shipping.Save(from.shipping)))
		}
	}
	m.Fs = m.Fs.Copy() // all of it durable
}

// putMedium has a file or a folder of one disk be as on another; nil, or without it: it is gone, a folder is empty. No
// power cut takes a new folder away, also while the box runs: a card is mounted there. Without its card, a box whose
// store and mark are put back knows nothing that is newer, and may give one number again; MH then stops it (RATIONALE,
// "Why does a number that MH holds stop the branch?").
func putMedium(to, from *disktest.Disk, medium string) error {
	err := to.RemoveAll(medium)
	if medium != onMark {
		err = errors.Join(err, to.MkdirAll(medium, 0o700))
	}
	root, bad := to.OpenDir("/")
	if err = errors.Join(err, bad); bad == nil {
		err = errors.Join(err, root.Sync(), root.Close())
	}
	if from == nil {
		return err
	}
	for _, name := range from.Files() {
		name = "/" + strings.TrimPrefix(name, "/")
		if name != medium && !strings.HasPrefix(name, medium+"/") {
			continue
		}
		data, bad := readAll(from, name)
		err = errors.Join(err, bad, to.MkdirAll(path.Dir(name), 0o700), writeAll(to, name, data))
	}
	return err
}

// rot turns a few bits of a medium over.
func rot(disk *disktest.Disk, medium string, rng *rand.Rand) {
	damage(disk, medium, rng, func(name string, size int64) {
		for range 1 + rng.IntN(3) {
			_ = disk.Flip(name, rng.Int64N(size*8))
		}
	})
}

// tear cuts a file of a medium off at a random place.
func tear(disk *disktest.Disk, medium string, rng *rand.Rand) {
	damage(disk, medium, rng, func(name string, size int64) {
		if data, err := readAll(disk, name); err == nil {
			_ = writeAll(disk, name, data[:rng.Int64N(size)])
		}
	})
}

func damage(disk *disktest.Disk, medium string, rng *rand.Rand, how func(name string, size int64)) {
	files := slices.DeleteFunc(disk.Files(), func(name string) bool {
		name = "/" + strings.TrimPrefix(name, "/")
		return name != medium && !strings.HasPrefix(name, medium+"/") || strings.HasSuffix(name, "LOCK")
	})
	if len(files) == 0 {
		return
	}
	name := files[rng.IntN(len(files))]
	if info, err := disk.Stat(name); err == nil && info.Size() > 0 {
		how(name, info.Size())
	}
}

// harmMedium has a medium of the branch's box, or two of them, be another one than before, while the box is off, and a
// person do what the runbook says.
func (s *site) harmMedium() {
	c, m := s.chain, s.box
	sets := [][]string{{onCopy}, {onMark}, {onCopy, onMark}, {onDisk}, {onDisk, onMark}, {onDisk, onCopy}}
	set := sets[c.rand.IntN(len(sets))]
	s.wg.Wait()
	how, _ := m.Store.SecondCopy()
	m.Fs = m.powerOff()
	right, own := m.media(), true // own: the right medium is there too
	old := s.image
	disk := set[0] == onDisk
	switch c.rand.IntN(6) {
	case 0: // older; a branch whose box has nothing but old media does not know it
		if old == nil || disk && (old.of != m || !how.Live) {
			break
		}
		c.played.old++
		m.put(old, set...)
		m.aged, own = m.aged || disk, c.rand.IntN(2) == 0
	case 1: // another branch's
		if disk {
			set = set[:1]
		}
		c.played.foreign++
		other := c.sites[(s.index+1)%len(c.sites)].box
		m.put(&image{of: other, fs: other.Fs.Copy()}, set...)
		own = disk || c.rand.IntN(2) == 0
	case 2: // swapped with another branch's box
		if disk { // with its mark it would be the other box: its keys, tokens and the agent's memory lie on it
			set = set[:1]
		}
		other := c.sites[(s.index+1)%len(c.sites)]
		c.played.swapped++
		c.tell("%s: swapped %v", s.name, set)
		s.swap(other, set)
		return
	case 3:
		if disk { // see replace
			set = set[1:]
		}
		c.played.empty++
		m.put(nil, set...)
		own = false
	case 4:
		c.played.rot++
		rot(m.Fs, set[0], enginetest.Fork(c.rand))
		own = false
	case 5:
		c.played.torn++
		tear(m.Fs, set[0], enginetest.Fork(c.rand))
		own = false
	}
	c.tell("%s: %v, own %v, live %v: %+v", s.name, set, own, how.Live, c.played)
	if s.image == nil || c.rand.IntN(3) == 0 {
		s.image = right
	}
	s.harmed = time.Now()
	s.switchOn(set, right, own)
}

// isHarmed tells whether the box may not have healed yet: it reads its copy, and what it shipped, once a day.
func (s *site) isHarmed() bool {
	for key := range s.gone {
		if s.chain.store.Held(key) == nil {
			return true
		}
	}
	return time.Since(s.harmed) < 30*time.Hour
}

// swap has two boxes hold each other's media, until somebody sees it.
func (s *site) swap(other *site, set []string) {
	m, o := s.box, other.box
	other.wg.Wait()
	o.Fs = o.powerOff()
	mine, its := m.media(), o.media()
	m.put(its, set...)
	o.put(mine, set...)
	for _, at := range []*site{s, other} {
		at.box.Cable.Set(enginetest.Plugged)
		if err := at.box.tryOn(); err == nil {
			at.rush()
			time.Sleep(s.chain.upTo(time.Minute, 4*time.Hour))
			at.wg.Wait()
			at.box.Fs = at.box.powerOff()
		}
	}
	mine, its = m.media(), o.media()
	m.put(its, set...)
	o.put(mine, set...)
	s.switchOn(set, nil, false)
	other.switchOn(set, nil, false)
}

// switchOn starts a box whose media were touched. Where it refuses to start or to number, a person puts the right
// medium back if there is one, or recovers. Where it sells, a person sees later what is wrong.
func (s *site) switchOn(set []string, right *image, own bool) {
	c, m := s.chain, s.box
	m.Cable.Set(enginetest.Plugged)
	err := m.tryOn()
	c.tell("%s: start: %v", s.name, err)
	if err == nil && m.Store.Behind() == nil {
		s.cure()
		return
	}
	if err == nil { // it answers, and numbers nothing
		s.rush()
		s.wg.Wait()
		m.Fs = m.powerOff()
	}
	time.Sleep(c.upTo(time.Minute, 4*time.Hour))
	c.played.stopped++
	if own {
		m.put(right, set...)
		s.on()
		if list := m.Store.Behind(); list != nil {
			c.t.Errorf("%s: the right medium is back, and %v", s.name, list)
		}
		s.cure()
		return
	}
	s.recovers(m, storage.Sources{Copy: onCopy})
	s.on()
	s.cure()
}

// on starts a box that must sell.
func (s *site) on() {
	s.chain.t.Helper()
	s.box.Cable.Set(enginetest.Plugged)
	s.box.turnOn()
}

// cure is what a person sees of a box that sells: after a while its tables were read, its copy and its mark looked at.
func (s *site) cure() {
	c, m := s.chain, s.box
	for range 1 + c.rand.IntN(3) {
		s.rush()
		time.Sleep(c.upTo(time.Minute, 8*time.Hour))
	}
	s.wg.Wait()
	s.readTables()
	if how, _ := m.Store.SecondCopy(); strings.Contains(how.Why, "another store's copy") {
		s.must(putMedium(m.Fs, nil, onCopy)) // it is taken out
		time.Sleep(time.Hour)
	}
	if err := m.Store.ProveMark(); err != nil {
		c.t.Errorf("%s: %v", s.name, err)
	}
	s.missed(m)
	if m.isCloned() {
		s.rekey()
	}
}

func (m *chainBox) isCloned() bool {
	// The agent knows it by the box's own last status. A store that lost rows, or the settling after a recovery, lacks
	// those numbers too, until it is recovered.
	if m.agent.Fence().Standing().Cloned && m.Store.Behind() == nil && m.Store.Health() == nil {
		m.taken()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cloned
}

// rekey is the page "Box replaced": the box gets a new key, and is enrolled again.
func (s *site) rekey() {
	m := s.box
	m.Fs = m.powerOff()
	s.made++
	m.key, m.disk, m.shipping = signer32(s.name, s.made), &fleettest.File{}, &fleettest.File{}
	s.enrol(m)
	m.mu.Lock()
	m.aged, m.cloned = false, false
	m.mu.Unlock()
	s.chain.played.rekeyed++
	s.on()
}

// readTables is the daily reading of the store. A damaged store is recovered.
func (s *site) readTables() {
	m := s.box
	for range 3 {
		if m.Store.Health() == nil {
			looks := 0
			m.Store.ReadDaily(context.Background(), func(_ context.Context, d time.Duration) error {
				if looks += int(d / time.Hour); looks > 0 {
					return context.Canceled
				}
				return nil
			})
		}
		report, err := m.Store.Fsck(context.Background())
		if m.Store.Health() == nil && err == nil && len(report.Problems) == 0 {
			return
		}
		s.chain.played.damaged++
		m.Fs = m.powerOff()
		s.recovers(m, storage.Sources{Copy: onCopy})
		s.on()
	}
	s.chain.t.Errorf("%s: the store is still damaged: %v", s.name, m.Store.Health())
}

// unnamed is the end of dtectl recover with a loss that nobody has named.
type unnamed struct{ owed *storage.Owed }

func (u *unnamed) Error() string {
	var lost []string
	for _, n := range u.owed.Series {
		if n.Lost() != "" {
			lost = append(lost, n.Lost())
		}
	}
	return fmt.Sprintf("lost: %s", strings.Join(lost, "; "))
}

// Stages at which dtectl recover ends with a medium that is wanted.
var (
	errWantsMedium = errors.New("no medium makes a store")
	errWantsMark   = errors.New("the mark is another's, or unreadable")
)

// recover is dtectl recover, with the losses that --accept-loss names.
func (m *chainBox) recover(from storage.Sources, accepted []storage.Loss) error {
	o := m.Storage()
	o.SecondCopy = ""
	from.Possible = func(time.Time) []string { return m.series() }
	named := func(owed *storage.Owed) error {
		if rest := owed.Accept(accepted); len(rest) > 0 {
			return &unnamed{owed}
		}
		return nil
	}
	_, gone := o.FS.Stat(o.Dir)
	_, err := storage.Assemble(context.Background(), from, o, nil)
	m.site.chain.tell("%s: assemble: %v", m.site.name, err)
	switch {
	case errors.Is(err, storage.ErrSound), errors.Is(err, storage.ErrDiverged),
		errors.Is(err, storage.ErrCorrupt) && gone == nil:
	case errors.Is(err, storage.ErrNoStore), errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrUnreadable),
		errors.Is(err, storage.ErrForeign):
		return fmt.Errorf("%w: %w", errWantsMedium, err)
	case errors.Is(err, storage.ErrMark):
		return fmt.Errorf("%w: %w", errWantsMark, err)
	case err != nil:
		return err
	}
	store, err := storage.Open(o)
	if errors.Is(err, storage.ErrMark) {
		_, err = storage.NewMark(context.Background(), storage.MarkAim{Second: from.Copy, Possible: from.Possible,
			Accept: func(p *storage.MarkProof) error { return named(p.Owed) }}, o, nil)
		if errors.Is(err, storage.ErrMark) { // the mark is right, and the store is an old one
			return fmt.Errorf("%w: %w", errWantsMedium, err)
		}
		if err != nil && !errors.Is(err, storage.ErrMarkSound) {
			return err
		}
		store, err = storage.Open(o)
	}
	if errors.Is(err, storage.ErrCorrupt) {
		return fmt.Errorf("%w: %w", errWantsMedium, err)
	}
	if err != nil {
		return err
	}
	owed, err := store.Owed(from.Possible)
	if err == nil && owed != nil {
		if err = named(owed); err == nil {
			_, err = store.Settle(context.Background(), from.Possible, accepted, "recovered")
		}
	}
	return errors.Join(err, store.Close())
}

// recovers is a person at a box that is off: dtectl recover, and what its texts say, until the box may start.
func (s *site) recovers(m *chainBox, from storage.Sources) {
	c := s.chain
	c.t.Helper()
	c.played.recovered++
	var losses []storage.Loss
	var said []string
	for range 6 {
		err := m.recover(from, losses)
		said = append(said, fmt.Sprint(err))
		c.tell("%s: recover %+v %v: %v", s.name, from, losses, err)
		var owes *unnamed
		switch {
		case err == nil:
			for _, l := range losses {
				s.accepted[l.Series] = append(s.accepted[l.Series], l.Numbers...)
			}
			s.must(m.tidy())
			return
		case errors.As(err, &owes) && from.Copy == onCopy && losses == nil: // the box may have shipped it
			fetched, _, err := s.fetch(m)
			if errors.Is(err, ship.ErrNothing) {
				losses = s.nameLosses(owes.owed)
				continue
			}
			s.must(err)
			from = fetched
		case errors.As(err, &owes):
			losses = s.nameLosses(owes.owed)
		case errors.Is(err, errWantsMark): // the card is another box's, or the mark: the file is moved away
			fetched, _, err := s.fetch(m)
			if from.Copy == onCopy && err == nil {
				from = fetched
				continue
			}
			s.must(m.Fs.RemoveAll(onMark))
		case errors.Is(err, errWantsMedium) && from.Copy == onCopy:
			fetched, _, err := s.fetch(m)
			s.must(err)
			from = fetched
		default:
			c.t.Fatalf("%s: recover: %s", s.name, strings.Join(said, "; then "))
		}
	}
	c.t.Fatalf("%s: recover comes to no end: %s", s.name, strings.Join(said, "; then "))
}

// tidy takes away what nobody misses: damaged stores, and copies that were set aside.
func (m *chainBox) tidy() error {
	names, err := m.Fs.List("/")
	for _, name := range names {
		if strings.HasPrefix(name, "data.") {
			err = errors.Join(err, m.Fs.RemoveAll("/"+name))
		}
	}
	m.Fs = m.Fs.Copy()
	return err
}

// nameLosses names what is lost: if nothing bounds a series, up to the last number of the tills' receipts and of MH's
// portal.
func (s *site) nameLosses(owed *storage.Owed) (losses []storage.Loss) {
	last, others := s.receipts(), false
	add := func(text string) {
		l, err := storage.ParseLoss(text)
		s.must(err)
		losses = append(losses, l)
	}
	for _, n := range owed.Series {
		text := n.Lost()
		to := max(last[n.Series], n.Known)
		if strings.Count(n.Series, "/") == 4 && (n.Here > 0 || n.Known > 0 || n.Open) {
			delete(last, n.Series)
		}
		switch {
		case text == "":
		case n.Series == storage.Others:
			others = true
			add(storage.Others + ": " + storage.NoNumbers)
		case strings.Count(n.Series, "/") != 4: // the box's own records
			losses = append(losses, n.Whole())
		case !n.Open:
			add(text)
		case to > n.Here:
			add(strings.Replace(text, "-N", fmt.Sprint("-", to), 1))
		default: // the last word is of numbers that were never given
			text = text[:max(strings.LastIndex(text, ", "), len(n.Series)+1)]
			if text == n.Series+":" {
				text += storage.NoNumbers
			}
			add(text)
		}
	}
	if others { // what no medium knows, receipts do
		for _, series := range slices.Sorted(maps.Keys(last)) {
			losses = append(losses, storage.Loss{Series: series, Numbers: []storage.Span{{From: 1, To: last[series]}}})
		}
	}
	return losses
}

// receipts are the last numbers of the branch's series that tills or MH have.
func (s *site) receipts() map[string]uint64 {
	last := make(map[string]uint64)
	note := func(document []byte) {
		if series, n := seriesOf(document); strings.Contains(series, "/"+s.establishment()+"/") {
			last[series] = max(last[series], n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sales {
		note(x.view.JSON)
	}
	for _, a := range s.chain.sim.Accepted() {
		note(a.Document)
	}
	return last
}

// seriesOf is a document's series and number.
func seriesOf(document []byte) (series string, n uint64) {
	year, control, _ := strings.Cut(numberOf(document), " ")
	words := strings.Split(control, "-") // DTE-01-M001P001-000000000000001
	n, _ = strconv.ParseUint(words[3], 10, 64)
	return fmt.Sprintf("00/%s/%s/%s/%s", words[1], words[2][:4], words[2][4:], year), n
}

// missed compares the box with what its tills were answered.
func (s *site) missed(m *chainBox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, x := range s.sales {
		if x.by == m && !x.lost {
			if err := m.holds(key, x); err != nil {
				s.lose(key, x, err)
			}
		}
	}
}

// holds returns an error if the box lacks a sale, or its signed form. While the box settles it with MH, no till can
// read it.
func (m *chainBox) holds(key string, x *chainSale) error {
	e, h, err := record.Read(m.Store, storage.Code(enginetest.CodeOf(x.view)))
	if series, n := seriesOf(x.view.JSON); err == nil && (e.Series != series || e.Number != n) {
		m.T.Errorf("P2: %s was answered %s and is %s %d", key, x.view.ControlNumber, e.Series, e.Number)
	}
	if err == nil {
		_, err = record.SignedForm(m.Store, e.Code, h)
	}
	return err
}

// lose notes a sale that its box lacks: somebody has named it.
func (s *site) lose(key string, x *chainSale, why error) {
	x.lost = true
	s.chain.played.lost++
	series, n := seriesOf(x.view.JSON)
	if !slices.ContainsFunc(s.accepted[series], func(l storage.Span) bool { return l.From <= n && n <= l.To }) {
		s.chain.t.Errorf("%s, %s, answered at %v, is lost, and nobody has named it: %v; named are %v", key,
			x.view.ControlNumber, x.at, why, s.accepted[series])
	}
}

// losePieces has the chain's store forget some of what the box shipped, have an older status, or list not all of it,
// while the branch sells; sometimes the box dies meanwhile.
func (s *site) losePieces() {
	c := s.chain
	status := "fleet/v1/status/" + s.name + "/" + fmt.Sprint(s.epoch) + ".jws"
	held := c.store.Held(status)
	switch c.rand.IntN(3) {
	case 0:
		for _, key := range c.some("copy/v1/" + s.name + "/") {
			s.gone[key] = c.store.Held(key)
			c.store.Lose(key)
			c.played.pieces++
		}
	case 1:
		if s.status != nil && s.statusOf == status {
			s.must(c.store.Overwrite(context.Background(), status, s.status))
		} else if held != nil {
			c.store.Lose(status)
		}
		c.played.pieces++
	case 2:
		hidden := append(c.some("copy/v1/"+s.name+"/"), c.some("fleet/v1/boxes/"+s.name+"/")...)
		c.store.Hidden = func(key string) bool { return slices.Contains(hidden, key) }
		c.played.hidden++
	}
	s.status, s.statusOf = held, status
	s.harmed = time.Now()
	c.meanwhile(s, c.upTo(time.Minute, 72*time.Hour))
	if c.rand.IntN(3) == 0 {
		s.replace()
	}
	c.store.Hidden = nil
	if c.rand.IntN(2) == 0 {
		s.putBack()
	}
}

// some are up to three keys under a prefix.
func (c *network) some(prefix string) (keys []string) {
	all := c.store.Keys(prefix)
	for range min(len(all), 1+c.rand.IntN(3)) {
		keys = append(keys, all[c.rand.IntN(len(all))])
	}
	return keys
}

// putBack puts back what the chain's store has lost, from its own versions, where the box has not shipped it again.
func (s *site) putBack() {
	for key, data := range s.gone {
		if data != nil && s.chain.store.Held(key) == nil {
			s.chain.put(key, data)
		}
		delete(s.gone, key)
	}
}

// fetch brings what the branch's boxes shipped onto a box's disk. Where it is not complete, a person may put back what
// the store has lost, and fetches again.
func (s *site) fetch(m *chainBox) (from storage.Sources, got ship.Fetched, err error) {
	const folder = "/fetched"
	dir := s.chain.t.TempDir()
	for {
		got, err = ship.Fetch(context.Background(), s.chain.store, chainName, chainDirectors, s.name, 0, dir, nil)
		if err != nil || len(got.Missing) == 0 || len(s.gone) == 0 || s.chain.rand.IntN(2) == 0 {
			break
		}
		s.putBack()
	}
	if err != nil {
		return from, got, err
	}
	files, err := os.ReadDir(dir)
	s.must(err)
	headless := func(f os.DirEntry) bool { // the store has lost the piece with the segment's head
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		s.must(err)
		return len(data) == 0 || data[0] == 0
	}
	if !slices.ContainsFunc(files, func(f os.DirEntry) bool { return !headless(f) }) {
		return from, got, ship.ErrNothing
	}
	from = storage.Sources{Copy: folder, Lacks: got.Lacks()}
	if got.Status != nil {
		from.Last = got.Status.Last
	}
	return from, got, errors.Join(m.Fs.RemoveAll(folder), m.receive(dir, folder))
}

// turn sets how wrong the box's clock is. A real agent waits by the time since its start, which no clock changes; this
// one waits by the clock, and therefore is made to look now.
func (m *chainBox) turn(by time.Duration) {
	m.Skew.Store(int64(by))
	m.agent.Fence().Await(time.Time{})
}

// turnClock has a box's clock go wrong for a while: it runs, or it starts with it. Then somebody sets it right, and
// accepts it where MH cannot.
func (s *site) turnClock() {
	c, m := s.chain, s.box
	by := c.upTo(time.Minute, 20*24*time.Hour) * time.Duration(1-2*c.rand.IntN(2))
	c.played.clocks++
	restarts := c.rand.IntN(2) == 0
	if c.rand.IntN(3) == 0 { // nobody tells the time: a box that starts ahead then sells
		m.Cable.Set(enginetest.Refusing)
	}
	away := m.Cable.Now()
	if restarts {
		s.wg.Wait()
		m.Fs = m.powerOff()
	}
	m.turn(by)
	if restarts {
		m.Cable.Set(away)
		m.turnOn()
	}
	for range 1 + c.rand.IntN(4) {
		s.rush()
		time.Sleep(c.upTo(time.Minute, 12*time.Hour))
	}
	s.wg.Wait()
	if now := m.Now(); now.After(c.ahead) {
		c.ahead = now
	}
	m.turn(0)
	m.Cable.Set(enginetest.Plugged)
	s.rush()
	time.Sleep(c.upTo(time.Minute, time.Hour))
	s.wg.Wait()
	if m.clock.Check() != nil {
		c.played.doubted++
		m.Fs = m.powerOff()
		o := m.Storage()
		o.SecondCopy = ""
		store, err := storage.Open(o)
		s.must(err)
		s.must(errors.Join(store.Beat(m.Now(), time.Time{}), store.Close()))
		s.on()
	}
	if err := m.clock.Check(); err != nil {
		c.t.Errorf("%s: the clock is right, and %v", s.name, err)
	}
}
