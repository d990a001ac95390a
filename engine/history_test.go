package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage/disktest"
)

// history is a branch beside a simple model of it: what was sold, and what is left of it.
type history struct {
	*enginetest.World
	rand   *rand.Rand
	sold   []*sold
	step   int
	issued int
}

// sold is the model of a voucher or an invoice.
type sold struct {
	record *record.View
	gone   bool
	// units of each invoice line that can still be returned; cents of a voucher that can still be credited.
	units    []int64
	cents    int64
	standing int // notes and returns in force
	notes    []note
}

type note struct {
	record *record.View
	debit  bool
	cents  int64
	units  map[int]int64
}

// TestHistories plays random histories of sales, notes, returns, invalidations, rejections, outages, crashes and
// retries. At every step the rest that can be returned or credited equals the model's.
func TestHistories(t *testing.T) {
	seeds, steps := uint64(4), 120
	if os.Getenv("DTE_SOAK") != "" {
		seeds, steps = 100, 200
	}
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := &history{World: enginetest.NewWorld(t), rand: rand.New(rand.NewPCG(seed, 7))}
			defer func() { h.Close() }()
			for h.step = range steps {
				h.play()
				if t.Failed() {
					t.Fatalf("at step %d", h.step)
				}
			}
			t.Logf("%d documents of %d requests", h.issued, steps)
		})
	}
}

func (h *history) play() {
	if err := h.Sim.Chaos(h.weather()); err != nil {
		h.T.Fatal(err)
	}
	if len(h.sold) == 0 || h.rand.IntN(4) == 0 {
		h.sell()
		return
	}
	s := h.sold[h.rand.IntN(len(h.sold))]
	switch {
	case h.rand.IntN(6) == 0:
		h.takeBack(s)
	case s.units != nil:
		h.bringBack(s)
	default:
		h.adjust(s)
	}
	h.check(s)
}

// weather is the authority's behaviour during a step.
func (h *history) weather() simulator.Chaos {
	switch h.rand.IntN(8) {
	case 0:
		return simulator.Chaos{Reject: 1}
	case 1:
		return simulator.Chaos{ServerErrors: 3}
	case 2:
		return simulator.Chaos{LostAnswers: 1}
	}
	return simulator.Chaos{}
}

// ask issues a request; one time in three the branch crashes at some moment around the wire, restarts with its synced
// data, and the till asks again with its key.
func (h *history) ask(req engine.Request) (*record.View, error) {
	if h.rand.IntN(3) > 0 {
		return h.Engine.Issue(context.Background(), req)
	}
	var after *disktest.Disk
	at, n := 1+h.rand.IntN(3), 0
	h.Wire.At = func(string) {
		if n++; n == at {
			after = h.Fs.Crash(h.rand.IntN(101), enginetest.Fork(h.rand))
			h.Wire.Sever()
		}
	}
	_, first := h.Engine.Issue(context.Background(), req)
	if after == nil { // that moment did not occur: the crash comes after the answer
		after = h.Fs.Crash(0, enginetest.Fork(h.rand))
	}
	if err := h.Store.Close(); err != nil {
		h.T.Fatal(err)
	}
	if err := h.Reopen(after); err != nil {
		h.T.Fatal(err)
	}
	if err := h.Engine.Recover(context.Background(), enginetest.Start.Add(engine.SettleAfter+1)); err != nil {
		h.T.Fatal(err)
	}
	r, err := h.Engine.Issue(context.Background(), req)
	if (first == nil) != (err == nil) && n < at {
		h.T.Errorf("answered %v, and after the crash %v", first, err)
	}
	return r, err
}

func (h *history) key() string { return fmt.Sprintf("step %d", h.step) }

func (h *history) sell() {
	s := &sold{}
	var req engine.Request
	if h.rand.IntN(2) == 0 {
		lines := make([]dte.Value, 1+h.rand.IntN(3))
		for i := range lines {
			n := 1 + h.rand.Int64N(5)
			s.units = append(s.units, n)
			lines[i] = enginetest.Item(int64(i+1), fmt.Sprint(n), "1.13")
		}
		req = enginetest.Invoice(h.key(), lines...)
	} else {
		s.cents = 100 + h.rand.Int64N(900)
		req = enginetest.Voucher(h.key(), enginetest.Item(1, "1", money(s.cents)))
	}
	r, err := h.ask(req)
	if err != nil {
		h.T.Error(err)
		return
	}
	h.issued++
	s.record = r
	h.sold = append(h.sold, s)
}

func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// may reports whether the original allows anything, by its state.
func (s *sold) may() bool { return s.record.Estado == record.EstadoProcessed && !s.gone }

func (h *history) adjust(s *sold) {
	n := note{debit: h.rand.IntN(3) == 0, cents: 1 + h.rand.Int64N(400)}
	document := "05"
	if n.debit {
		document = "06"
	}
	r, err := h.ask(enginetest.NoteOn(document, h.key(), s.record, enginetest.Item(1, "1", money(n.cents))))
	want := s.may() && (n.debit || n.cents <= s.cents)
	h.book(s, n, r, err, want)
}

func (h *history) bringBack(s *sold) {
	i := h.rand.IntN(len(s.units))
	n := note{units: map[int]int64{i: 1 + h.rand.Int64N(3)}}
	r, err := h.ask(enginetest.ReturnOf(h.key(), s.record, enginetest.Back(int64(i+1), fmt.Sprint(n.units[i]))))
	h.book(s, n, r, err, s.may() && n.units[i] <= s.units[i])
}

// book compares the result of a note or a return with the model, and records it.
func (h *history) book(s *sold, n note, r *record.View, err error, want bool) {
	var e *refusal.Error
	if (err == nil) != want || err != nil && (!errors.As(err, &e) || e.Code == refusal.CodeInternal ||
		e.Code == refusal.CodeUnavailable) {
		h.T.Errorf("%s of %s: %v, the model says %v (%+v)", n.kind(), s.record.Estado, err, want, n)
		return
	}
	if err != nil {
		return
	}
	h.issued++
	n.record = r
	switch r.Estado {
	case record.EstadoRejected:
		return
	case record.EstadoContingency:
		if n.debit {
			n.cents = 0 // no room before MH accepts it
		}
	}
	s.standing++
	s.move(n, -1)
	s.notes = append(s.notes, n)
}

// move adds what a note draws to the model, or with sign 1 gives it back.
func (s *sold) move(n note, sign int64) {
	for i, units := range n.units {
		s.units[i] += sign * units
	}
	if n.units != nil {
		return
	}
	if n.debit {
		sign = -sign
	}
	s.cents += sign * n.cents
}

func (n note) kind() string {
	switch {
	case n.units != nil:
		return "return"
	case n.debit:
		return "debit note"
	}
	return "credit note"
}

// takeBack invalidates the last note of an original, or the original if no note is in force.
func (h *history) takeBack(s *sold) {
	if err := h.Sim.Chaos(simulator.Chaos{}); err != nil {
		h.T.Fatal(err)
	}
	if len(s.notes) > 0 {
		n := s.notes[len(s.notes)-1]
		r, err := h.Engine.Invalidate(context.Background(), enginetest.Invalidation(n.record, 2, ""))
		want := n.record.Estado == record.EstadoProcessed && (!n.debit || n.cents <= s.cents)
		if (err == nil) != want {
			h.T.Errorf("invalidating a %s %s: %v %+v, the model says %v", n.kind(), n.record.Estado, err, r, want)
			return
		}
		if want {
			s.notes = s.notes[:len(s.notes)-1]
			s.standing--
			s.move(n, 1)
		}
		return
	}
	want := s.record.Estado == record.EstadoProcessed
	_, err := h.Engine.Invalidate(context.Background(), enginetest.Invalidation(s.record, 2, ""))
	if (err == nil) != want {
		h.T.Errorf("invalidating %s: %v, the model says %v", s.record.Estado, err, want)
	}
	s.gone = s.gone || want
}

// check compares the store's counters with the model.
func (h *history) check(s *sold) {
	if n := h.Counter(s.record, record.LineActive); n != int64(s.standing) {
		h.T.Errorf("%d notes stand, the model says %d", n, s.standing)
	}
	for i, left := range s.units {
		v, err := dte.Parse(s.record.JSON)
		if err != nil {
			h.T.Fatal(err)
		}
		had := engine.AmountOf(v.Get("cuerpoDocumento").Index(i), "cantidad")
		if got := int64(had) - h.Counter(s.record, uint32(i+1)); got != left*int64(dte.Scale) || got < 0 {
			h.T.Errorf("of line %d %d units are left, the model says %d", i+1, got/int64(dte.Scale), left)
		}
	}
	if s.units == nil && s.cents < 0 {
		h.T.Errorf("%d cents are left", s.cents)
	}
}
