package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage/disktest"
)

// month is a branch of twenty points of sale through a month of outages, crashes, wrong clocks and hostilities.
type month struct {
	*enginetest.Box
	rand  *rand.Rand
	mu    sync.Mutex
	sales map[string]*record.View // the last answer, by key
	late  []documents.Late        // what a till that follows the changes has read
	wg    sync.WaitGroup
	n     int // sales so far
	cuts  int // of the power
}

// played is the result of months.
type played struct{ months, sales, cuts, seals, events, lots int }

func (p *played) add(m *month) {
	mh := m.Sim.Received()
	p.months, p.sales, p.cuts = p.months+1, p.sales+len(m.sales), p.cuts+m.cuts
	p.seals, p.events, p.lots = p.seals+mh.Documents, p.events+mh.Events, p.lots+mh.Lots
}

// TestMonth plays a month for each seed. The suite plays a third of a month of two seeds: only in the second does MH
// take requests late.
func TestMonth(t *testing.T) {
	plan := enginetest.MonthsToPlay(t, 2, 10, 1000)
	if testing.Short() { // the race detector makes it ten times as slow
		plan = enginetest.MonthsToPlay(t, 1, 2, 1000)
	}
	var all played
	plan.Each(t, func(t *testing.T, seed uint64, length time.Duration) {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			if os.Getenv("DTE_LOG") != "" {
				b.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
			}
			all.add(play(b, seed, length))
		})
	})
	t.Logf("%v: %d branch-months with %d sales and %d power cuts; MH sealed %d documents, %d events, %d lots", plan,
		all.months, all.sales, all.cuts, all.seals, all.events, all.lots)
}

func play(b *enginetest.Box, seed uint64, length time.Duration) *month {
	b.Fs.SetRules(disktest.AllRules[seed%3])
	b.Lateness = seed%2 == 0
	b.Every = 5 * time.Minute // one look a minute would be a fifth of the work
	m := &month{Box: b, rand: rand.New(rand.NewPCG(seed, 30)), sales: map[string]*record.View{}}
	b.Rand = m.rand
	b.Chaos(simulator.Chaos{})
	for end := time.Now().Add(length); time.Now().Before(end); {
		m.step()
	}
	m.calm()
	time.Sleep(26 * time.Hour)
	m.wg.Wait()
	m.check()
	b.Audit()
	return m
}

// upTo is a random time, each order of magnitude as likely.
func (m *month) upTo(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), m.rand.Float64()))
}

func (m *month) step() {
	switch n := m.rand.IntN(20); {
	case n < 12:
		m.rush()
		time.Sleep(m.upTo(time.Second, 12*time.Hour))
	case n < 14:
		m.outage()
	case n == 14:
		for range 1 + m.rand.IntN(8) { // a link that flaps
			m.Cable.Set(enginetest.Refusing)
			m.sell()
			time.Sleep(m.upTo(100*time.Millisecond, 20*time.Second))
			m.Cable.Set(enginetest.Plugged)
			m.sell()
			time.Sleep(m.upTo(100*time.Millisecond, 20*time.Second))
		}
	case n == 15:
		m.crash()
		m.repeat()
	case n == 16:
		skew := time.Duration(m.Skew.Load()) + time.Duration(m.rand.IntN(361)-180)*time.Second
		m.Skew.Store(int64(max(-5*time.Minute, min(skew, 5*time.Minute))))
	default:
		m.Chaos(m.weather())
		m.rush()
		time.Sleep(m.upTo(time.Second, time.Hour))
		m.Chaos(simulator.Chaos{})
	}
}

func (m *month) weather() simulator.Chaos {
	n := 1 + m.rand.IntN(3)
	weather := []simulator.Chaos{{Reject: n}, {LostAnswers: n}, {LostRequests: n}, {ServerErrors: 5 * n}, {HTML: n},
		{HalfAnswers: n}, {ExpiredTokens: n},
		{RejectEvents: n}, {RejectLots: n}, {LoseLots: n}, {Silence: true},
		{LostAnswers: n, Only: "lots"}, {LostAnswers: n, Only: "events"}, {LostAnswers: n, Only: "queries"}}
	if m.Lateness {
		weather = append(weather, simulator.Chaos{LateRequests: n, LateMS: 1000 * m.rand.IntN(100)})
	}
	return weather[m.rand.IntN(len(weather))]
}

// outage takes MH away for seconds to three days, and sells meanwhile; sometimes the power fails too.
func (m *month) outage() {
	switch m.rand.IntN(3) {
	case 0:
		m.Cable.Set(enginetest.Refusing)
	case 1:
		m.Cable.Set(enginetest.NoName)
	case 2:
		m.Chaos(simulator.Chaos{Silence: true})
	}
	for left := m.upTo(time.Second, 72*time.Hour); left > 0; {
		m.rush()
		part := m.upTo(time.Second, 24*time.Hour)
		time.Sleep(min(part, left))
		left -= part
		if m.rand.IntN(6) == 0 {
			m.crash()
		}
	}
	m.calm()
	if m.rand.IntN(3) == 0 {
		time.Sleep(m.upTo(time.Second, 10*time.Minute))
		m.crash() // while the branch sends what waits
	}
}

func (m *month) calm() {
	m.Cable.Set(enginetest.Plugged)
	m.Chaos(simulator.Chaos{})
}

// rush has some tills sell at once.
func (m *month) rush() {
	for range 1 + m.rand.IntN(4) {
		m.sell()
	}
}

func (m *month) sell() {
	m.n++
	key, cents := fmt.Sprintf("sale %d", m.n), 100+m.n
	req := enginetest.Sale(key, cents)
	req.Caller = enginetest.TestCaller(1 + m.rand.IntN(20))
	if m.rand.IntN(8) == 0 {
		req.Wait = time.Duration(1+m.rand.IntN(5)) * time.Second
	}
	m.mu.Lock()
	m.sales[key] = nil
	m.mu.Unlock()
	m.wg.Go(func() {
		r, err := m.Engine.Issue(context.Background(), req)
		var e *refusal.Error
		if err != nil && (!errors.As(err, &e) || e.Code == refusal.CodeInternal) {
			m.T.Errorf("%s: %v", key, err)
			return
		}
		m.note(key, r)
	})
}

func (m *month) note(key string, r *record.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.sales[key]
	if r != nil && before != nil && (before.Code != r.Code || before.ControlNumber != r.ControlNumber ||
		before.Rule != r.Rule || before.Estado == record.EstadoProcessed && !bytes.Equal(before.JWS, r.JWS)) {
		m.T.Errorf("P2: %s was %s %s, is %s %s", key, before.Code, before.ControlNumber, r.Code, r.ControlNumber)
	}
	if r != nil {
		m.sales[key] = r
	}
}

// repeat is a till that asks again after a crash.
func (m *month) repeat() {
	for i := max(1, m.n-3); i <= m.n; i++ {
		key := fmt.Sprintf("sale %d", i)
		m.mu.Lock()
		r := m.sales[key]
		m.mu.Unlock()
		if r == nil {
			continue
		}
		m.note(key, m.Document(r.Code))
	}
}

// crash cuts the power between sales, after the changes so far were read.
func (m *month) crash() {
	m.wg.Wait()
	m.follow()
	m.Box.Crash()
	m.cuts++
}

// follow reads the changes on from where the till stopped.
func (m *month) follow() {
	after := uint64(0)
	if n := len(m.late); n > 0 {
		after = m.late[n-1].Cursor
	}
	m.late = append(m.late, m.Changes(after)...)
}

// check compares every sale with what MH has, and with what the changes said of it.
func (m *month) check() {
	m.follow()
	if all := m.Changes(0); !slices.Equal(m.late, all) {
		m.T.Errorf("%d changes were followed, %d are there", len(m.late), len(all))
	}
	told := map[string]string{}
	for _, l := range m.late {
		if before, twice := told[l.Code]; twice {
			m.T.Errorf("%s was announced as %s, then as %s", l.Code, before, l.Estado)
		}
		told[l.Code] = l.Estado
	}
	estados := map[string]int{}
	seen := map[string]string{}
	for key, answered := range m.sales {
		if answered == nil {
			m.T.Errorf("%s was not answered", key)
			continue
		}
		if other, twice := seen[answered.Code]; twice {
			m.T.Errorf("%s and %s are one document", key, other)
		}
		seen[answered.Code] = key
		r := m.Document(answered.Code)
		if said := told[r.Code]; said != r.Estado && (said != "" || answered.Estado == record.EstadoContingency) {
			m.T.Errorf("%s was answered %s and is %s; announced: %q", r.Code, answered.Estado, r.Estado, said)
		}
		m.note(key, r)
		estados[r.Estado]++
		a, _ := m.Sim.Document(r.Code)
		if a.Accepted != (r.Estado == record.EstadoProcessed) {
			m.T.Errorf("%s is %s, MH accepted it: %v", r.Code, r.Estado, a.Accepted)
		}
		if r.Estado != record.EstadoProcessed && r.Estado != record.EstadoRejected {
			m.T.Errorf("%s is still %s", r.Code, r.Estado)
		}
	}
	m.T.Logf("%d sales: %v; %d power cuts; MH received %+v", len(m.sales), estados, m.cuts, m.Sim.Received())
}
