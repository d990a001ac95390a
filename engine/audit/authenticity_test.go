package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/engine/recordmac"
	"dtegate/storage"
)

// TestAuthenticity: somebody who writes a whole store, as in a backup, makes its hash chain anew. Changes to the acts
// are found nevertheless; acts from elsewhere are distinguished, and not called genuine.
func TestAuthenticity(t *testing.T) {
	ctx, box, other := context.Background(), recordmac.New(), recordmac.New()
	create := func() *storage.Store {
		o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler),
			Now: time.Now}
		if err := storage.Create(o); err != nil {
			t.Fatal(err)
		}
		s, err := storage.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	record := func(s *storage.Store, box *recordmac.Key, from, n int) {
		trail := New(s, "00", box, time.Now) // as after a restart
		for i := range n {
			o, err := trail.Begin(ctx, Act{Who: "ana", What: "rules.push", Target: fmt.Sprint(from + i)})
			if err != nil {
				t.Fatal(err)
			}
			o.Outcome = Done
			if i%2 == 0 {
				if err := trail.End(ctx, o); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	genuine := create()
	record(genuine, nil, 1, 2)
	record(genuine, other, 3, 2)
	record(genuine, box, 5, 3)
	record(genuine, box, 8, 3)
	entries, err := genuine.Due("audit", time.Unix(0, 0), 100)
	if err != nil || len(entries) != 10 {
		t.Fatalf("%d acts, %v", len(entries), err)
	}
	bare := func(head []byte) []byte {
		return append(bytes.Clone(head[:bytes.Index(head, []byte(`,"mark":"`))]), '}')
	}
	same := func(_ uint64, head []byte) []byte { return head }
	eva := func(head []byte) []byte { return bytes.Replace(head, []byte("ana"), []byte("eva"), 1) }
	only := func(number uint64, change func([]byte) []byte) func(uint64, []byte) []byte {
		return func(n uint64, head []byte) []byte {
			if n == number {
				return change(head)
			}
			return head
		}
	}
	without := func(numbers ...uint64) func(uint64, []byte) []byte {
		return func(n uint64, head []byte) []byte {
			if slices.Contains(numbers, n) {
				return nil
			}
			return head
		}
	}
	for name, c := range map[string]struct {
		change  func(number uint64, head []byte) []byte // nil: the act is left out
		acts    string
		problem string
	}{
		"genuine": {same, "map[none:2 other:2 own:6]", ""},
		"cut off": {without(9, 10), "map[none:2 other:2 own:4]", ""}, // like an older trail
		"a name changed": {only(8, eva), "map[altered:1 none:2 other:2 own:5]",
			`act 8 ("rules.push" by "eva"): it was rewritten`},
		"a name changed, and the mark taken off": {only(8, func(head []byte) []byte { return eva(bare(head)) }),
			"map[none:3 other:2 own:5]",
			`act 8 ("rules.push" by "eva"): it follows acts of this box`},
		"the last rewritten without a mark": {only(10, bare), "map[none:3 other:2 own:5]",
			`act 10 ("rules.push" by "ana"): it follows`},
		"another box's mark put on": {only(8, func(head []byte) []byte {
			return other.Mark(bare(head),
				recordmac.Place{})
		}), "map[none:2 other:3 own:5]",
			`act 8 ("rules.push" by "ana"): it follows`},
		"another box's act changed": {only(4, eva), "map[none:2 other:2 own:6]", ""}, // nobody here can know
		"one taken out": {without(7), "map[altered:3 none:2 other:2 own:2]",
			`act 7 ("rules.push" by "ana"): it was rewritten`},
	} {
		t.Run(name, func(t *testing.T) {
			s := create()
			for number := uint64(1); number <= 10; number++ {
				for _, e := range entries {
					if e.Number != number {
						continue
					}
					head := c.change(number, e.Head)
					if head == nil {
						continue
					}
					if _, err := s.Append(ctx, storage.Keys{Series: e.Series}, storage.Draft{Code: e.Code,
						State: e.State, Head: head, Due: e.Due}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if r, err := s.Fsck(ctx); err != nil || len(r.Problems) > 0 {
				t.Errorf("the integrity is not whole: %+v, %v", r, err)
			}
			a, err := Authenticate(s, box)
			if err != nil || fmt.Sprint(a.Acts) != c.acts || (len(a.Problems) > 0) != (c.problem != "") ||
				len(a.Problems) > 0 && !strings.HasPrefix(a.Problems[0], c.problem) {
				t.Errorf("%v %q, %v", a.Acts, a.Problems, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := genuine.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTrail_Concurrent: acts that begin at the same time are chained nevertheless.
func TestTrail_Concurrent(t *testing.T) {
	o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler),
		Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	box := recordmac.New()
	trail := New(s, "00", box, time.Now)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			a, err := trail.Begin(context.Background(), Act{Who: "ana", What: "token.new"})
			if err == nil {
				a.Outcome = Done
				err = trail.End(context.Background(), a)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if a, err := Authenticate(s, box); err != nil || len(a.Problems) > 0 || a.Acts[recordmac.Own] != 16 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
