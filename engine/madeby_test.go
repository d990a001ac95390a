package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/record"
	"dtegate/engine/shelf"
)

// TestShelf_Documents: the documents of a version are exactly those whose records name it, whatever the size of the pages and the
// days that are chosen.
func TestShelf_Documents(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	s := w.shelf(shipped(t))
	wants := make(map[string][]string) // by version, and by version and day
	sell := func(n int) {
		for i := range n {
			key := fmt.Sprint(w.now().Format(time.DateOnly), " ", i, len(wants["2.1.0"]), len(wants["2.1.7"]))
			r := w.issued(invoice(key, item(1, "1", "6.95")), record.EstadoProcessed)
			e, err := w.store.Get([16]byte(codeOf(r)))
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
	a := push(t, s, edition(t, "2.1.7"))
	sell(4)
	w.clock.set(start.Add(24 * time.Hour))
	sell(3)
	if _, err := s.Rollback(t.Context(), shelf.Target{Name: "dte01", Schema: 2, Version: "2.1.0"}, shelf.Order{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	sell(2)
	if len(wants["2.1.0"]) != 5 || len(wants["2.1.7"]) != 7 {
		t.Fatalf("the test sold %v", wants)
	}
	for _, c := range []struct {
		made shelf.Made
		want []string
	}{
		{shelf.Made{Rule: "2.1.0"}, wants["2.1.0"]},
		{shelf.Made{Rule: "2.1.7"}, wants["2.1.7"]},
		{shelf.Made{Rule: a.Rule.Digest}, wants["2.1.7"]},
		{shelf.Made{Rule: a.Rule.Digest[:8]}, wants["2.1.7"]},
		{shelf.Made{Rule: "2.1.7", Name: "dte01"}, wants["2.1.7"]},
		{shelf.Made{Rule: "2.1.7", Name: "dte03"}, nil},
		{shelf.Made{Rule: "2.1"}, nil},
		{shelf.Made{Rule: "2.1.7", To: "2026-11-21"}, wants["2.1.7 2026-11-21"]},
		{shelf.Made{Rule: "2.1.7", From: "2026-11-22"}, wants["2.1.7 2026-11-22"]},
		{shelf.Made{Rule: "2.1.0", From: "2026-11-22", To: "2026-11-22"}, wants["2.1.0 2026-11-22"]},
		{shelf.Made{Rule: "2.1.0", From: "2026-11-23"}, nil},
		{shelf.Made{Rule: "2.1.0", To: "2026-11-20"}, nil},
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
	for _, m := range []shelf.Made{{Rule: "x", Limit: 1}, {Rule: "abcdef1", Limit: 1}, {Rule: strings.Repeat("g", 8), Limit: 1}, {Rule: "1.0.0"}, {Rule: "1.0.0", Limit: 5001},
		{Rule: "1.0.0", From: "x", Limit: 1}, {Rule: "1.0.0", From: "2026-11-22", To: "2026-11-21", Limit: 1}} {
		if _, err := s.Documents(t.Context(), m); err == nil {
			t.Errorf("%+v is taken", m)
		}
	}
}
