package engine_test

import (
	"testing"
	"time"

	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// TestCountBacklog_Fails: a count that fails never looks like an empty backlog: it shows the last count, and something
// lost. A count is reused for two seconds, and not after the clock was set back.
func TestCountBacklog_Fails(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Server.Close()
	w.Issued(enginetest.Sale("before", 100), record.EstadoProcessed)
	w.Wire.Sever()
	w.Issued(enginetest.Sale("k", 100), record.EstadoContingency)
	w.Clock.Set(enginetest.Start.Add(time.Hour))
	before := w.Engine.CountBacklog()
	waits := before.Waiting[record.QueueReport]
	if before.Lost != 0 || waits != 1 {
		t.Fatalf("%+v", before)
	}
	w.Issued(enginetest.Sale("k2", 100), record.EstadoContingency)
	w.Fsck()
	if err := w.Store.Close(); err != nil {
		t.Fatal(err)
	}
	at := enginetest.Start.Add(time.Hour)
	for _, c := range []struct {
		after time.Duration
		lost  int
	}{{2 * time.Second, 0}, {2*time.Second + 1, 1}, {4 * time.Second, 1}, {0, 1}, {time.Hour, 1}} {
		w.Clock.Set(at.Add(c.after))
		if o := w.Engine.CountBacklog(); o.Lost != c.lost || o.Waiting[record.QueueReport] != waits {
			t.Errorf("%v later: %+v", c.after, o)
		}
	}
}
