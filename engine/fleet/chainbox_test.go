package fleet_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/dted/config"
	boxclock "dtegate/cmd/dted/health/clock"
	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet"
	fleetwire "dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/engine/record"
	"dtegate/storage/disktest"
)

const copyFolder = "/copy"

// chainBox is one box of a branch of a chain: the appliance with its second copy, its agent and its shipper.
type chainBox struct {
	*enginetest.Box
	site     *site
	point    int // of sale, that its tills sell at
	line     *storeLine
	key      fleetwire.Signer
	disk     *fleettest.File // the agent's
	shipping *fleettest.File
	gate     *fleettest.Gate
	dir      string // the second copy as the shipper reads it, on this machine's disk

	clock    *boxclock.Clock
	anyClock bool // no sale asks the clock
	noShip   bool // it does not ship its copy
	agent    *fleet.Agent
	ship     *ship.Shipper
	checked  time.Time // when what is shipped was compared with the copy
	mirrored map[string]int64
	live     atomic.Bool // the copy was live when it was last mirrored
	kicked   chan struct{}
	stopAll  context.CancelFunc
	working  sync.WaitGroup

	mu       sync.Mutex
	dead     bool
	aged     bool      // its store's disk was put back: to the chain's store it is as a copy of itself
	cloned   bool      // it was taken for one: a person gives it another key
	replaced time.Time // another box has the branch since; zero: none
	looked   time.Time // the shipper last looked at a live copy
	through  time.Time // the chain's store has what was acknowledged until then
}

// numbered is the box's point of sale.
func (m *chainBox) numbered() fleetwire.Point {
	return fleetwire.Point{Establishment: m.site.establishment(), Point: fmt.Sprintf("P%03d", m.point)}
}

// turnOn starts the box as an appliance starts.
func (m *chainBox) turnOn() {
	m.T.Helper()
	m.site.must(m.tryOn())
}

// tryOn is turnOn where the store may refuse to open. MH is reached again.
func (m *chainBox) tryOn() error {
	m.mu.Lock()
	m.dead, m.looked = false, time.Time{}
	m.mu.Unlock()
	if err := m.Box.TryStart(); err != nil {
		return err
	}
	var err error
	m.agent, err = fleet.New(fleet.Options{Store: m.line, Chain: chainName, Branch: m.site.name, Group: chainGroup,
		Director: []fleetwire.Key{fleetwire.Public(chainDirector)}, Box: m.key,
		Points: []fleetwire.Point{m.numbered()}, Rules: m.gate, State: m.disk, Logger: enginetest.Quiet, Now: m.Now,
		Rand: enginetest.Fork(m.Rand), Poll: 30 * time.Minute, Look: 10 * time.Minute, Report: time.Hour,
		Describe: func(s *fleetwire.Status) {
			if s.Ready = true; !m.noShip {
				s.Copy = m.ship.Shipped()
			}
		}, Last: func() (map[string]uint64, error) { return m.Store.LastNumbers() }})
	if err != nil {
		return err
	}
	m.ship, err = ship.New(ship.Options{Store: m.line, Chain: chainName, Branch: m.site.name, Box: m.key, Folder: m.dir,
		Epoch: func() int64 { return m.agent.Fence().Standing().Epoch },
		Live:  func() bool { return m.live.Load() }, Cloned: m.taken, Restart: m.Store.CopyAfter,
		Segment: m.Store.CopySegment, Has: m.Store.HasCopied,
		State: m.shipping, Logger: enginetest.Quiet, Now: m.Now})
	if err != nil {
		return err
	}
	asked := fairqueue.NewBell()
	if !m.noShip {
		m.agent.Fence().Compare(func(epoch int64) <-chan struct{} {
			asked.Ring()
			return m.ship.Compared(epoch)
		})
	}
	m.mirrored, m.kicked = make(map[string]int64), make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	m.stopAll = stop
	m.working.Go(func() { _ = m.agent.Run(ctx) })
	m.working.Go(func() { m.runShip(ctx, asked) })
	m.working.Go(func() { m.runClock(ctx) })
	return nil
}

// taken is the box's shipper that meets what another copy of the box has shipped.
func (m *chainBox) taken() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.aged {
		m.T.Errorf("%s: the box takes itself for a copy", m.site.name)
	}
	m.cloned = true
	m.agent.Fence().Close()
}

// runClock asks MH for the time at the start and while the clock is in doubt, and beats, as the appliance does, but not
// every few seconds.
func (m *chainBox) runClock(ctx context.Context) {
	for first := true; ; first = false {
		if first || m.clock.Check() != nil || m.clock.IsDisputed() {
			ask, cancel := context.WithTimeout(ctx, 5*time.Second)
			if req, err := http.NewRequestWithContext(ask, http.MethodGet, "http://mh", nil); err == nil {
				if resp, err := m.Wire.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
			}
			cancel()
			m.clock.Answered()
		}
		if err := m.Store.Beat(m.clock.Trusted(), time.Time{}); err != nil && ctx.Err() == nil {
			m.T.Error(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Minute):
		}
	}
}

// runShip looks at the copy as the appliance does, but not while nothing happens.
func (m *chainBox) runShip(ctx context.Context, asked <-chan struct{}) {
	rest := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	if m.noShip {
		return
	}
	_ = m.shipOnce(ctx)
	for wait := ship.DefaultEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-asked: // the first sale waits until the shipper has compared its copy with the store
		case <-m.kicked:
			if !rest(ship.DefaultEvery) {
				return
			}
		case <-time.After(wait):
		}
		wait = time.Hour
		for range 2 {
			if _, up := m.line.up(); !up && m.away(ctx, rest) {
				return
			}
			if m.shipOnce(ctx) != nil {
				wait = time.Minute
				break
			}
			if !rest(ship.DefaultEvery) {
				return
			}
		}
	}
}

// away fails once more, then waits until the store answers, because each attempt costs a signature. True: the box ends.
func (m *chainBox) away(ctx context.Context, rest func(time.Duration) bool) bool {
	_ = m.shipOnce(ctx)
	for {
		if _, up := m.line.up(); up {
			return false
		}
		if !rest(time.Minute) {
			return true
		}
	}
}

func (m *chainBox) shipOnce(ctx context.Context) error {
	began := time.Now()
	how, _ := m.Store.SecondCopy()
	m.live.Store(how.Live)
	if err := m.mirror(); err != nil {
		m.T.Errorf("reading the second copy: %v", err)
	}
	if m.agent.Fence().Standing().Epoch == 0 {
		return errLine // it does not know yet that it is enrolled
	}
	if err := m.ship.Step(ctx); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(m.checked) > 24*time.Hour {
		if err := m.ship.Check(ctx); err != nil {
			return err
		}
		m.checked = now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.looked.IsZero() {
		m.through = m.looked
	}
	if m.looked = (time.Time{}); how.Live {
		m.looked = began.Add(-1) // a sale may be answered at this very moment, after the step
	}
	return nil
}

// mirror copies new bytes of the second copy to the files of this machine that the shipper reads.
func (m *chainBox) mirror() error {
	names, err := m.Fs.List(copyFolder)
	if err != nil {
		return err
	}
	held := make(map[string]bool)
	for _, name := range names {
		if filepath.Ext(name) != ".copy" {
			continue
		}
		held[name] = true
		if err := m.mirrorFile(name); err != nil {
			return err
		}
	}
	for name := range m.mirrored {
		if !held[name] {
			delete(m.mirrored, name)
		}
	}
	gone, err := os.ReadDir(m.dir)
	for _, e := range gone {
		if !held[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(m.dir, e.Name())))
		}
	}
	return err
}

func (m *chainBox) mirrorFile(name string) error {
	path := copyFolder + "/" + name
	info, err := m.Fs.Stat(path)
	if errors.Is(err, os.ErrNotExist) { // it was removed in the meantime
		return nil
	}
	if err != nil {
		return err
	}
	if n, ok := m.mirrored[name]; ok && n == info.Size() {
		return nil
	}
	data, err := readAll(m.Fs, path)
	if err != nil {
		return err
	}
	m.mirrored[name] = int64(len(data))
	return os.WriteFile(filepath.Join(m.dir, name), data, 0o600)
}

func readAll(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

func writeAll(fs vfs.FS, path string, data []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// crash is a power cut; the box starts again on its own disk.
func (m *chainBox) crash() {
	m.site.wg.Wait()
	m.Fs = m.powerOff()
	if m.Rand.IntN(3) == 0 {
		m.site.image = m.media()
	}
	m.turnOn()
	m.Cable.Set(enginetest.Plugged)
}

// powerOff ends the box, even during sales, and returns the content of its media.
func (m *chainBox) powerOff() *disktest.Disk {
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	m.Cable.Set(enginetest.Refusing)
	after := m.Fs.Crash(m.Rand.IntN(101), enginetest.Fork(m.Rand))
	m.stopAll()
	m.working.Wait()
	m.Box.Close()
	m.stopAll = nil
	return after
}

// scrap ends the box for good.
func (m *chainBox) scrap() { _ = m.Server.Close() }

var (
	errReplaced = errors.New("another box has this branch")
	errUnfit    = errors.New("the store is behind, or damaged")
)

// issue makes a sale through the appliance's gate.
func (m *chainBox) issue(req engine.Request) (*record.View, error) {
	m.clock.AwaitFirst()
	m.agent.Fence().Await(m.Now())
	ill := m.Store.Health()
	if m.Store.Behind() != nil {
		ill = cmp.Or(ill, errUnfit)
	}
	if s := m.agent.Fence().Standing(); !s.Numbers(m.numbered()) && !(ill != nil && s.Cloned) {
		return nil, errReplaced
	}
	if ill != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, ill)
	}
	if err := m.clock.Check(); err != nil && !m.anyClock {
		return nil, err
	}
	m.clock.Admitted()
	r, err := m.Engine.Issue(context.Background(), req)
	select {
	case m.kicked <- struct{}{}:
	default:
	}
	return r, err
}

// alone reports whether the box could have learned for some time that another box has its branch.
func (m *chainBox) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, up := m.line.up()
	const enough = 45 * time.Minute // looks are 10 minutes apart, and one in fifty fails
	return !m.replaced.IsZero() && up && time.Since(since) > enough && time.Since(m.replaced) > enough
}

func (m *chainBox) caller() record.Caller {
	return record.Caller{TokenID: 1, MailsOthers: true, Point: record.Point{ID: int64(m.point), BranchID: 1,
		Establishment: m.site.establishment(), PointOfSale: fmt.Sprintf("P%03d", m.point)}}
}

// series are the series in which the box can have given numbers in a chain's month.
func (m *chainBox) series() (list []string) {
	for p := 1; p <= m.point; p++ {
		for _, year := range []string{"2026", "2027"} {
			list = append(list, fmt.Sprintf("00/01/%s/P%03d/%s", m.site.establishment(), p, year))
		}
	}
	return list
}

// newMember is a box that was never turned on.
func (s *site) newMember(point int) *chainBox {
	c := s.chain
	s.made++
	key := signer32(s.name, s.made)
	b := &enginetest.Box{
		T:        c.t,
		Sim:      c.sim,
		Cable:    enginetest.NewCable(),
		Fs:       disktest.New(c.rules),
		Rand:     enginetest.Fork(c.rand),
		Log:      enginetest.Quiet,
		Password: "secreto-mh.2026",
		Every:    10 * time.Minute,
		Second:   copyFolder,
		Ours:     (&config.Config{Points: []config.Point{{Establishment: s.establishment()}}}).Store(nil).Ours,
		Policy: contingency.Options{Responsible: record.Person{Name: "María López", DocumentType: "13",
			Document: "012345678"}},
	}
	if os.Getenv("DTE_LOG") == "all" {
		b.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	b.Server = &http.Server{Handler: c.sim.Protocol()}
	go func() { _ = b.Server.Serve(b.Cable) }()
	m := &chainBox{Box: b, site: s, point: point, key: key, disk: &fleettest.File{}, shipping: &fleettest.File{},
		dir:  c.t.TempDir(),
		line: &storeLine{under: c.store, rand: enginetest.Fork(c.rand), since: time.Now()}}
	c.boxes = append(c.boxes, m)
	b.Heard = func(date string) { m.clock.Observe(date) }
	b.Opened = func() error {
		last, _, err := b.Store.LastBeat()
		m.clock = boxclock.New(last, b.Now, enginetest.Quiet)
		m.clock.Synced = func() bool { return false }
		return err
	}
	m.gate = &fleettest.Gate{Keys: c.keys, Ambiente: "00", Today: func() string { return dte.Date(m.Now()) }}
	return m
}

// receive puts a folder of this machine onto the box's disk.
func (m *chainBox) receive(dir, to string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := m.Fs.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = writeAll(m.Fs, to+"/"+e.Name(), data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
