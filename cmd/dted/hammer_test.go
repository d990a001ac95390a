package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/storage"
)

// TestHammer_KillNine: 16 tills at 8 points of sale issue 30 documents each, 500 with DTE_SOAK, while the appliance is
// killed again and again. P1: numbers 1…n. P2: every answered document is there, byte for byte. P3: a repeated key
// gives the same document.
func TestHammer_KillNine(t *testing.T) {
	const tills, points, kills = 16, 8, 4
	each := 30
	if os.Getenv("DTE_SOAK") != "" {
		each = 500
	}
	b := newBranch(t)
	b.start()

	answers := make([][][]byte, tills)
	var answered atomic.Int64
	var wg sync.WaitGroup
	for till := range tills {
		answers[till] = make([][]byte, each)
		wg.Go(func() {
			for i := range each {
				answers[till][i] = b.insist(till%points+1, fmt.Sprintf("till %d sale %d", till, i), hammerSale(till, i))
				answered.Add(1)
			}
		})
	}
	for k := range int64(kills) {
		for answered.Load() < (k+1)*int64(tills*each)/(kills+1) {
			<-time.After(time.Millisecond)
		}
		b.kill()
		b.start()
	}
	wg.Wait()

	codes := make(map[string]bool)
	for till := range tills {
		for i := range each {
			r := decode(t, answers[till][i])
			if codes[r.Code] {
				t.Fatalf("two sales have the code %s", r.Code)
			}
			codes[r.Code] = true
			if r.Estado != "PROCESSED" {
				t.Errorf("%s is %s", r.ControlNumber, r.Estado)
			}
		}
	}
	// Every key again, and every code: the same record, to the byte.
	for till := range tills {
		wg.Go(func() {
			for i := range each {
				first := answers[till][i]
				status, again, err := b.post("/dte/dte01", till%points+1, fmt.Sprintf("till %d sale %d", till, i),
					hammerSale(till, i))
				if err != nil || status != http.StatusCreated || !bytes.Equal(first, again) {
					t.Errorf("repeated: %d %v\n%s\n%s", status, err, first, again)
					return
				}
				status, shown, err := b.get("/dte/documento/"+decode(t, first).Code, till%points+1)
				if err != nil || status != http.StatusOK || !bytes.Equal(first, shown) {
					t.Errorf("looked up: %d %v %s", status, err, shown)
					return
				}
			}
		})
	}
	wg.Wait()
	b.stop()
	if got := b.sim.Received(); got.Documents != tills*each || got.Duplicates != 0 {
		t.Errorf("MH received %+v for %d sales", got, tills*each)
	}
	b.fsck(tills*each, points)
}

func hammerSale(till, i int) string {
	return fmt.Sprintf(`{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"Café","cantidad":%d,"precioUnitario":%d.25}],"condicionOperacion":1}`, i+1, till+1)
}

// insist repeats a sale with its key until it is answered, as a till must.
func (b *branch) insist(point int, key, body string) []byte {
	for {
		status, answer, err := b.post("/dte/dte01", point, key, body)
		if err == nil && status == http.StatusCreated {
			return answer
		}
		if err == nil && status != http.StatusServiceUnavailable {
			b.t.Errorf("%s: %d %s", key, status, answer)
			return answer
		}
		<-time.After(5 * time.Millisecond)
	}
}

// fsck checks the store of a stopped branch: this many documents in this many series of control numbers, each numbered
// 1…n.
func (b *branch) fsck(documents, series int) {
	b.t.Helper()
	store, err := storage.Open(b.storeOptions())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	r, err := store.Fsck(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range r.Problems {
		b.t.Error(p)
	}
	// rules, periods, events
	maps.DeleteFunc(r.Last, func(name string, _ uint64) bool { return strings.Count(name, "/") != 4 })
	var sum uint64
	for _, n := range r.Last {
		sum += n
	}
	if len(r.Last) != series || sum != uint64(documents) {
		b.t.Errorf("%d documents in %d series, numbers up to %v; want %d in %d", sum, len(r.Last), r.Last, documents,
			series)
	}
}
