package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"dtegate/engine/authority"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

// TestShelf_Documents: the documents of a version are exactly those whose records name it, for any size of the pages
// and any choice of days.
func TestShelf_Documents(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	wants := make(map[string][]string) // by version, and by version and day
	sell := func(n int) {
		for i := range n {
			key := fmt.Sprint(w.Now().Format(time.DateOnly), " ", i, len(wants["2.1.0"]), len(wants["2.1.7"]))
			r := w.Issued(enginetest.Invoice(key, enginetest.Item(1, "1", "6.95")), record.EstadoProcessed)
			e, err := w.Store.Get([16]byte(enginetest.CodeOf(r)))
			if err != nil {
				t.Fatal(err)
			}
			h, err := record.DecodeHead(e)
			if err != nil {
				t.Fatal(err)
			}
			wants[h.Rule.Version] = append(wants[h.Rule.Version], r.Code)
			day := h.Rule.Version + " " + h.Date
			wants[day] = append(wants[day], r.Code)
		}
	}
	sell(3)
	a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.7"))
	sell(4)
	w.Clock.Set(enginetest.Start.Add(24 * time.Hour))
	sell(3)
	if _, err := s.Rollback(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.0"},
		rulestore.Order{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	sell(2)
	if len(wants["2.1.0"]) != 5 || len(wants["2.1.7"]) != 7 {
		t.Fatalf("the test sold %v", wants)
	}
	for _, c := range []struct {
		made rulestore.Made
		want []string
	}{
		{rulestore.Made{Rule: "2.1.0"}, wants["2.1.0"]},
		{rulestore.Made{Rule: "2.1.7"}, wants["2.1.7"]},
		{rulestore.Made{Rule: a.Rule.Digest}, wants["2.1.7"]},
		{rulestore.Made{Rule: a.Rule.Digest[:8]}, wants["2.1.7"]},
		{rulestore.Made{Rule: "2.1.7", Name: "dte01"}, wants["2.1.7"]},
		{rulestore.Made{Rule: "2.1.7", Name: "dte03"}, nil},
		{rulestore.Made{Rule: "2.1"}, nil},
		{rulestore.Made{Rule: "2.1.7", To: "2026-11-21"}, wants["2.1.7 2026-11-21"]},
		{rulestore.Made{Rule: "2.1.7", From: "2026-11-22"}, wants["2.1.7 2026-11-22"]},
		{rulestore.Made{Rule: "2.1.0", From: "2026-11-22", To: "2026-11-22"}, wants["2.1.0 2026-11-22"]},
		{rulestore.Made{Rule: "2.1.0", From: "2026-11-23"}, nil},
		{rulestore.Made{Rule: "2.1.0", To: "2026-11-20"}, nil},
	} {
		for _, limit := range []int{1, 2, 500} {
			var got []string
			for m := c.made; ; {
				m.Limit = limit
				page, err := s.Documents(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Documents) > limit {
					t.Fatalf("%+v: a page of %d", m, len(page.Documents))
				}
				for _, d := range page.Documents {
					if d.Estado != record.EstadoProcessed || d.Sello == "" || d.Total != "6.95" || d.Document != "01" {
						t.Errorf("%+v", d)
					}
					got = append(got, d.Code)
				}
				if m.After = page.Next; m.After == 0 {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v, pages of %d: got %v, want %v", c.made, limit, got, c.want)
			}
		}
	}
	for _, m := range []rulestore.Made{{Rule: "x", Limit: 1}, {Rule: "abcdef1", Limit: 1},
		{Rule: strings.Repeat("g", 8), Limit: 1}, {Rule: "1.0.0"}, {Rule: "1.0.0", Limit: 5001},
		{Rule: "1.0.0", From: "x", Limit: 1}, {Rule: "1.0.0", From: "2026-11-22", To: "2026-11-21", Limit: 1}} {
		if _, err := s.Documents(t.Context(), m); err == nil {
			t.Errorf("%+v is taken", m)
		}
	}
}

// The documents of a version are found among many, in memory that does not grow with them: DTE_SOAK=1 makes it a
// million.
func TestShelf_DocumentsMany(t *testing.T) {
	documents, create := 3000, enginetest.NewWorld
	if os.Getenv("DTE_SOAK") != "" {
		documents, create = 1_000_000, enginetest.NewWorldOnDisk
	}
	w := create(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	const each = 100 // one of so many is of the version
	answer := &authority.Response{Version: 2, Ambiente: "00", Estado: "PROCESADO", SelloRecibido: strings.Repeat("2",
		40), FhProcesamiento: "21/11/2026 10:00:00", CodigoMsg: "001", DescripcionMsg: "RECIBIDO"}
	var g errgroup.Group
	g.SetLimit(32)
	for i := range documents {
		g.Go(func() error {
			h := &record.Head{Document: "01", Version: 2, ControlNumber: fmt.Sprintf("DTE-01-M001P%03d-%015d", i%8,
				i/8+1), Ambiente: "00", Date: enginetest.Start.AddDate(0, 0, -(documents-i)/1000).Format(time.DateOnly),
				Total: "6.95",
				Form:  record.FormNormal, BranchID: 1, PointID: 1, TokenID: 1, CreatedAt: enginetest.Start,
				Rule:     record.RuleRef{Name: "dte01", Version: "2.1.0", Digest: strings.Repeat("a", 64)},
				Response: answer}
			if i%each == 0 {
				h.Rule.Version, h.Rule.Digest = "9.9.9", strings.Repeat("9", 64)
			}
			head, err := h.Encode()
			if err != nil {
				return err
			}
			_, err = w.Store.Append(t.Context(), storage.Keys{Series: fmt.Sprintf("00/01/M001/P%03d/2026", i%8)},
				storage.Draft{Code: storage.Code{0: byte(i >> 16), 1: byte(i >> 8), 2: byte(i), 6: 0x40, 8: 0x80},
					State: record.Accepted, Head: head, Days: h.Days()})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	before, most, pages, found := int64(enginetest.Heap()), int64(0), 0, 0
	began, used := time.Now(), processor(t)
	for m := (rulestore.Made{Rule: "9.9.9", Limit: 500}); ; {
		page, err := s.Documents(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		found += len(page.Documents)
		if pages%10 == 1 {
			most = max(most, int64(enginetest.Heap()))
		}
		if m.After = page.Next; m.After == 0 {
			break
		}
	}
	t.Logf("%d of %d documents in %v, %v of the processor, %d pages; the heap grew by %d KiB", found, documents,
		time.Since(began), processor(t)-used, pages, (most-before)>>10)
	if found != documents/each {
		t.Errorf("%d documents, want %d", found, documents/each)
	}
	if most-before > 48<<20 { // the store's cache, 32 MiB
		t.Errorf("the heap grew by %d MiB", (most-before)>>20)
	}
}

// processor returns the processor time that the process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
