package contingency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// marked checks a document's marks of contingency (CAT-005); without a motive the member is null, as MH requires unless
// the cause is 5.
func marked(b *enginetest.Box, r *record.View, cause, motive string) {
	b.T.Helper()
	if r.Estado != record.EstadoContingency || enginetest.Text(b.T, r, "identificacion", "tipoContingencia") != cause ||
		enginetest.Text(b.T, r, "identificacion", "motivoContin") != motive {
		b.T.Errorf("%s, not of cause %s %q: %s", r.Estado, cause, motive, r.JSON)
	}
}

// reported checks the events that MH has, by cause and number of documents.
func reported(b *enginetest.Box, want ...[2]int) {
	b.T.Helper()
	var got [][2]int
	for _, e := range b.Sim.Events() {
		got = append(got, [2]int{e.Kind, len(e.Documents)})
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.T.Errorf("MH has events of cause and documents %v, not %v", got, want)
	}
}

// The probe finds the cause of a contingency: MH's system (1), our own (2) or the Internet (3).
func TestCause_Probed(t *testing.T) {
	neighbour, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer neighbour.Close()
	const nobody = "127.0.0.1:0" // refuses connections
	for name, c := range map[string]struct {
		state    enginetest.CableState
		silence  bool
		internet []string
		cause    int
	}{
		"refused":                           {state: enginetest.Refusing, cause: 1},
		"silence":                           {silence: true, cause: 1},
		"no name":                           {state: enginetest.NoName, cause: 3},
		"no route":                          {state: enginetest.CutOff, cause: 3},
		"refused, and nobody else is there": {state: enginetest.Refusing, internet: []string{nobody}, cause: 3},
		"refused, and somebody else is there": {state: enginetest.Refusing, internet: []string{nobody, neighbour.Addr().String()},
			cause: 1},
		"packets dropped, nobody is there": {state: enginetest.Dropping, internet: []string{nobody}, cause: 3},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Policy.Internet = c.internet
				b.Crash()
				b.Issue(enginetest.Sale("before", 100))
				b.Cable.Set(c.state)
				b.Chaos(simulator.Chaos{Silence: c.silence})
				for _, key := range []string{"first", "next"} {
					marked(b, b.Issue(enginetest.Sale(key, 200)), fmt.Sprint(c.cause), "")
				}
				b.Cable.Set(enginetest.Plugged)
				b.Chaos(simulator.Chaos{})
				b.Drained()
				reported(b, [2]int{c.cause, 2})
				b.Audit()
			})
		})
	}
	t.Run("credentials refused", func(t *testing.T) {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.Chaos(simulator.Chaos{})
			b.Password = "vencida"
			b.Crash()
			marked(b, b.Issue(enginetest.Sale("first", 100)), "2", "")
			time.Sleep(time.Hour)
			marked(b, b.Issue(enginetest.Sale("next", 200)), "2", "")
			b.Password = "secreto-mh.2026"
			b.Crash()
			b.Drained()
			reported(b, [2]int{2, 2})
			b.Audit()
		})
	})
}

// An operator's declaration puts the branch in contingency although MH is up, for as long as the operator wants, even
// after a restart; a second declaration changes the cause of later documents.
func TestCause_Declared(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		ctx := context.Background()
		b.Chaos(simulator.Chaos{})
		b.Issue(enginetest.Sale("before", 100))
		declare := func(cause int64, reason string) {
			t.Helper()
			if err := b.Engine.Contingency().Declare(ctx, cause, reason); err != nil {
				t.Fatal(err)
			}
		}
		stays := func() {
			t.Helper()
			if p := b.Engine.CountBacklog().Contingency; p == nil || !p.Declared {
				t.Fatalf("the operator's contingency is %+v", p)
			}
		}
		declare(5, "Inundación en la sucursal")
		marked(b, b.Issue(enginetest.Sale("a", 200)), "5", "Inundación en la sucursal")
		time.Sleep(time.Hour)
		stays()
		b.Crash()
		time.Sleep(time.Hour)
		stays()
		marked(b, b.Issue(enginetest.Sale("b", 300)), "5", "Inundación en la sucursal")
		declare(2, "Se cambia el servidor")
		marked(b, b.Issue(enginetest.Sale("c", 400)), "2", "")
		b.Crash()
		stays()
		marked(b, b.Issue(enginetest.Sale("d", 500)), "2", "")
		marked(b, b.Issue(enginetest.Sale("e", 600)), "2", "")
		if got := b.Sim.Received(); got.Documents != 1 || got.Events != 0 {
			t.Errorf("in contingency MH received %+v", got)
		}
		if err := b.Engine.Contingency().Lift(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // MH has answered for a while
		if r := b.Issue(enginetest.Sale("after", 700)); r.Estado != record.EstadoProcessed {
			t.Errorf("after the contingency a sale is %s", r.Estado)
		}
		b.Drained()
		reported(b, [2]int{5, 2}, [2]int{2, 3})
		if got := b.Sim.Received(); got.Documents != 7 {
			t.Errorf("MH received %+v", got)
		}
		b.Audit()
	})
}

// In an outage the operator knows its cause better than the probe; MH's return does not end the declaration.
func TestCause_DeclaredInOutage(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		b.Issue(enginetest.Sale("before", 100))
		b.Cable.Set(enginetest.Refusing)
		marked(b, b.Issue(enginetest.Sale("a", 200)), "1", "")
		if err := b.Engine.Contingency().Declare(context.Background(), 5, "Sin energía"); err != nil {
			t.Fatal(err)
		}
		marked(b, b.Issue(enginetest.Sale("b", 300)), "5", "Sin energía")
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(time.Hour)
		marked(b, b.Issue(enginetest.Sale("c", 400)), "5", "Sin energía")
		if err := b.Engine.Contingency().Lift(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.Drained()
		reported(b, [2]int{1, 1}, [2]int{5, 2})
		b.Audit()
	})
}

// TestCause_Span: an event begins and ends with its period, not with the first and the last sale in the period. The log
// names the same beginning and end.
func TestCause_Span(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		var log bytes.Buffer
		b.Log = slog.New(slog.NewTextHandler(&log, nil))
		b.Restart(nil)
		b.Chaos(simulator.Chaos{})
		if err := b.Engine.Contingency().Declare(context.Background(), 2, "inventario"); err != nil {
			t.Fatal(err)
		}
		began := b.Now()
		time.Sleep(10 * time.Minute)
		r := b.Issue(enginetest.Sale("a", 100))
		time.Sleep(10 * time.Minute)
		if err := b.Engine.Contingency().Lift(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.Drained()
		events := b.Sim.Events()
		if len(events) != 1 {
			t.Fatalf("%+v", events)
		}
		if e := events[0]; e.Began.Sub(began).Abs() > time.Second || e.Ended.Sub(began) < 20*time.Minute ||
			e.Ended.Sub(began) > 21*time.Minute {
			t.Errorf("the event is of %v to %v, the period began at %v, the sale is of %v", e.Began, e.Ended, began,
				r.CreatedAt)
		}
		b.Log = enginetest.Quiet // nobody writes to the buffer any more
		b.Restart(nil)
		line := fmt.Sprintf(`msg="out of contingency" began=%s`, began.UTC().Format("2006-01-02T15:04"))
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, log.String())
		}
		b.Audit()
	})
}

func TestCause_Refused(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		var e *refusal.Error
		for _, c := range []struct {
			cause  int64
			reason string
			path   string
		}{{0, "x", "cause"}, {6, "x", "cause"}, {5, "", "reason"}, {1, string(make([]rune, 501)), "reason"}} {
			err := b.Engine.Contingency().Declare(context.Background(), c.cause, c.reason)
			if !errors.As(err, &e) || e.Code != refusal.CodeValidation || len(e.Faults) != 1 ||
				e.Faults[0].Path != c.path {
				t.Errorf("cause %d, reason of %d: %v", c.cause, len(c.reason), err)
			}
		}
		if err := b.Engine.Contingency().Lift(context.Background()); !errors.As(err, &e) ||
			e.Code != refusal.CodeNoContingency {
			t.Errorf("lifting nothing: %v", err)
		}
		if b.Engine.Contingency().Current() != nil {
			t.Error("the branch is in contingency")
		}
	})
}

// A motive that a layout in force does not take is refused at once: with it no till could sell. MH's layouts before DTE
// 2.0 take 5 to 150 characters.
func TestCause_MotiveFits(t *testing.T) {
	enginetest.InBubbleOf(t, "01", time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		for _, reason := range []string{"luz", strings.Repeat("sin luz ", 20)} {
			var e *refusal.Error
			if err := b.Engine.Contingency().Declare(context.Background(), 5, reason); !errors.As(err, &e) ||
				len(e.Faults) != 1 || e.Faults[0].Path != "reason" || e.Faults[0].Code != dte.FaultLength {
				t.Errorf("%q: %v", reason, err)
			}
		}
		for cause, reason := range map[int64]string{1: "luz", 5: "Sin energía"} {
			if err := b.Engine.Contingency().Declare(context.Background(), cause, reason); err != nil {
				t.Fatal(err)
			}
			b.Issue(enginetest.Sale(reason, 100))
		}
	})
}

// An unstable link makes few periods: trouble that returns before a period is reported continues the period; otherwise
// MH must have answered for 2, 4, 8 … s before a period ends.
func TestFlapping(t *testing.T) {
	for name, c := range map[string]struct {
		up      time.Duration
		periods int // at most
	}{
		"back before the report": {14 * time.Second, 1},
		"back after it":          {40 * time.Second, 6}, // in the seventh period MH would have to answer for 64 s
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Chaos(simulator.Chaos{})
				b.Issue(enginetest.Sale("before", 100))
				for i := range 60 {
					b.Cable.Set(enginetest.Refusing)
					b.Issue(enginetest.Sale(fmt.Sprint(i), 200+i))
					time.Sleep(5 * time.Second)
					b.Cable.Set(enginetest.Plugged)
					time.Sleep(c.up)
				}
				periods, err := b.Store.Due(record.QueuePeriod, record.Whenever, 100)
				if err != nil || len(periods) == 0 || len(periods) > c.periods {
					t.Errorf("%d periods of %d at most, %v", len(periods), c.periods, err)
				}
				b.Drained()
				if got := b.Sim.Received(); got.Documents != 61 || got.Events == 0 || got.Events > c.periods {
					t.Errorf("MH received %+v", got)
				}
				t.Logf("%d periods, MH received %+v", len(periods), b.Sim.Received())
				b.Audit()
			})
		})
	}
}
