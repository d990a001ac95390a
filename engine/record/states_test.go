package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/storage"
)

// Each number is one state, of one kind. A state leads to states of its own kind that are in the table. Every constant
// of this package is in the table.
func TestTable(t *testing.T) {
	for n := range 256 {
		if IsDocument(storage.State(n)) != slices.Contains([]int{1, 2, 3, 4, 5, 6}, n) {
			t.Errorf("state %d: is a document's: %v", n, IsDocument(storage.State(n)))
		}
	}
	seen := make(map[storage.State]row)
	for _, r := range table {
		if _, twice := seen[r.state]; twice {
			t.Errorf("state %d is in the table twice", r.state)
		}
		seen[r.state] = r
		if r.state == 0 {
			t.Error("a state is 0")
		}
		if r.estado != "" && !IsDocument(r.state) {
			t.Errorf("state %d has a public name and is no document's", r.state)
		}
	}
	for _, r := range table {
		for _, next := range r.next {
			if after, known := seen[next]; !known || after.state>>4 != r.state>>4 {
				t.Errorf("state %d leads to %d, which is no state of its kind", r.state, next)
			}
		}
	}
	source, err := os.ReadFile("states.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\t(\w+) +storage\.State = (\d+)`).FindAllStringSubmatch(string(source), -1)
	if len(constants) != len(table) {
		t.Errorf("%d constants, %d rows", len(constants), len(table))
	}
	queues := regexp.MustCompile(`(?m)^\t(Queue\w+) +=`).FindAllStringSubmatch(string(source), -1)
	_, rest, _ := strings.Cut(string(source), "var table")
	for _, name := range append(constants, queues...) {
		if !strings.Contains(rest, name[1]) {
			t.Errorf("%s is in no row of the table", name[1])
		}
	}
}

// advancer is a store that notes what it is asked to do.
type advancer struct{ asked int }

func (a *advancer) Advance(context.Context, storage.Code, storage.State, storage.Change) (storage.Entry, error) {
	a.asked++
	return storage.Entry{}, errors.New("asked")
}

// Every pair of numbers, with each queue: only the steps of the table reach the store.
func TestMove(t *testing.T) {
	type step struct {
		from, next storage.State
		queue      string
	}
	queues := map[string]bool{"": true, "no such queue": true}
	for _, r := range table {
		for _, q := range r.queues {
			queues[q] = true
		}
	}
	may := make(map[step]bool)
	for _, r := range table {
		for _, next := range r.next {
			may[step{r.state, next, ""}] = true
			for _, q := range rows[next].queues {
				may[step{r.state, next, q}] = true
			}
		}
	}
	for from := range 256 {
		for next := range 256 {
			for q := range queues {
				c := storage.Change{To: storage.State(next)}
				if q != "" {
					c.Due = &storage.Due{Queue: q}
				}
				a := &advancer{}
				_, err := Move(context.Background(), a, storage.Code{}, storage.State(from), c)
				if wanted := may[step{storage.State(from), storage.State(next), q}]; err == nil ||
					(a.asked == 1) != wanted {
					t.Fatalf("from %d to %d in queue %q: allowed is %v, want %v", from, next, q, a.asked == 1, wanted)
				}
			}
		}
	}
}

// Nothing in the product moves a record but Move.
func TestMove_OnlyWay(t *testing.T) {
	for _, pattern := range []string{"../*.go", "../*/*.go", "../../gateway/*.go", "../../gateway/*/*.go",
		"../../cmd/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// of storage.Reconciliation
			n := strings.Count(string(source), ".Advance(") - strings.Count(string(source), "r.Advance(")
			if filepath.Base(file) == "states.go" {
				n--
			}
			if n != 0 && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s moves records past the table", file)
			}
		}
	}
}
