package documents

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// TestPages: pages of any size contain each document of the month and each that was invalidated in it, once, in the
// order of their days, with the signed bytes; no other record and no document of another month.
func TestPages(t *testing.T) {
	w := newWorld(t)
	for day := time.Date(2026, 8, 20, 12, 0, 0, 0, dte.Zone); day.Year() == 2026; day = day.AddDate(0, 0, 1) {
		clock := day
		if w.r.IntN(4) == 0 { // the clock is set ahead or back, for more documents than any window
			clock = day.AddDate(0, 0, w.r.IntN(61)-30)
		}
		for range w.r.IntN(16) {
			w.document(clock)
		}
		if w.r.IntN(8) == 0 {
			// no document
			w.append(storage.Draft{Code: w.code(), State: record.LotDone, Head: []byte(`{"date":"2026-11-05"}`)})
		}
	}
	for _, month := range []string{"2026-07", "2026-08", "2026-11", "2026-12", "2027-01"} {
		for _, r := range []*MonthReader{NewMonthReader(w.store), {w.store, 1, 1 << 20, nil}, {w.store, 50, 1 << 20, nil}, {w.store, 4096, 1, nil},
			{w.store, 4096, 2500, nil}} {
			var got []string
			pages, last := 0, uint64(0)
			for after, more := uint64(0), true; more; pages++ {
				p, err := r.Page(month, after)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range p.Documents {
					raw := []byte(d.JSON)
					if len(raw) == 0 && w.lost[d.Code] { // its signed bytes are lost: the page has it nevertheless
						raw = []byte(`{"code":"` + d.Code + `"}`)
					}
					if string(raw) != `{"code":"`+d.Code+`"}` {
						t.Fatalf("%s holds %s", d.Code, raw)
					}
					got = append(got, d.Code+" "+d.State+" "+d.Date+" "+d.Invalidated)
				}
				if p.Done < last || p.Done > p.Total {
					t.Errorf("%d of %d are done, after %d", p.Done, p.Total, last)
				}
				last, after, more = p.Done, p.Next, p.Next > 0
			}
			if want := w.of(month); !slices.Equal(got, want) {
				t.Errorf("%s, by %d records and %d bytes: %d documents, want %d", month, r.records, r.bytes, len(got),
					len(want))
			}
			if r.records == 1 && month == "2026-11" && pages < 200 {
				t.Errorf("only %d pages of one record", pages)
			}
		}
	}
	if _, err := NewMonthReader(w.store).Page("2026-13", 0); err == nil || IsMonth("11/2026") || !IsMonth("2026-11") {
		t.Error("2026-13 is a month")
	}
	if _, err := NewMonthReader(w.store).Document(dte.Code{1}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a document that is not there: %v", err)
	}
}

type world struct {
	t     *testing.T
	r     *rand.Rand
	store *storage.Store
	list  []string // as TestPages names them
	lost  map[string]bool
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"),
		Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, r: rand.New(rand.NewPCG(1, 2)), store: s, lost: make(map[string]bool)}
}

func (w *world) code() (c storage.Code) {
	for i := range c {
		c[i] = byte(w.r.Uint32())
	}
	c[6], c[8] = 0x40|c[6]&15, 0x80|c[8]&63
	return c
}

func (w *world) append(d storage.Draft) {
	w.t.Helper()
	if _, err := w.store.Append(context.Background(), storage.Keys{Series: "s"}, d); err != nil {
		w.t.Fatal(err)
	}
}

// document stores a document of a day, or of the day before: requests that read the clock before midnight are stored
// after it.
func (w *world) document(day time.Time) {
	day = day.AddDate(0, 0, -w.r.IntN(2))
	states := []storage.State{record.Signed, record.Accepted, record.Accepted, record.Rejected, record.Deferred,
		record.Reported, record.Invalidated, record.Invalidated}
	state, code := states[w.r.IntN(len(states))], w.code()
	h := &record.Head{Date: dte.Date(day)}
	head := map[string]any{"document": "01", "date": h.Date, "total": "1.00", "form": "normal",
		"bytes": 500 + w.r.IntN(1000)}
	back := ""
	if state == record.Invalidated {
		// a clock that was set back invalidates a document before its date
		at := day.AddDate(0, 0, w.r.IntN(200)-w.r.IntN(40))
		h.Invalidation = &record.Invalidation{At: at}
		head["invalidation"], back = map[string]any{"at": at, "estado": "PROCESSED"}, dte.Date(at)
	}
	raw, err := json.Marshal(head)
	if err != nil {
		w.t.Fatal(err)
	}
	form := "normal"
	if w.r.IntN(10) == 0 {
		form = "contingency" // the record names a form that was never signed
	}
	text := dte.Code(code).String()
	w.lost[text] = form != "normal"
	w.append(storage.Draft{Code: code, State: state, Head: raw, Days: h.Days(),
		Parts: []storage.Part{{Name: form,
			Data: []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"code":"`+text+`"}`)) + ".c2ln")},
			{Name: "facts", Data: []byte("{}")}}})
	w.list = append(w.list, fmt.Sprintf("%s %s %s %s", text, record.Estado(state), dte.Date(day), back))
}

// of returns the documents of a month by reading everything: by the day to which they belong, and then in the order in
// which they were stored.
func (w *world) of(month string) (list []string) {
	for _, d := range w.list {
		f := strings.Split(d, " ")
		if strings.HasPrefix(f[2], month) || strings.HasPrefix(f[3], month) {
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int {
		return strings.Compare(dayIn(month, strings.Split(a, " ")), dayIn(month, strings.Split(b, " ")))
	})
	return list
}

func dayIn(month string, f []string) string {
	if strings.HasPrefix(f[2], month) {
		return f[2]
	}
	return f[3]
}

// TestPages_Signers: a document that none of the given keys signed is unproven; without keys nothing is verified, and
// of what is lost there is nothing to prove.
func TestPages_Signers(t *testing.T) {
	w := newWorld(t)
	key, other := make([]*sign.Key, 2), 1
	for i := range key {
		var err error
		if key[i], err = sign.Generate(1024); err != nil {
			t.Fatal(err)
		}
	}
	jws, err := sign.New(key[0]).Right([16]byte{1}, record.FormNormal).Sign(t.Context(), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{record.FormNormal, "other"} {
		w.append(storage.Draft{Code: storage.Code{byte(n + 1)}, State: record.Accepted, Days: []uint32{20261121},
			Head:  []byte(`{"document":"01","date":"2026-11-21","total":"1.00","form":"normal"}`),
			Parts: []storage.Part{{Name: name, Data: jws}}})
	}
	for name, c := range map[string]struct {
		keys     []*rsa.PublicKey
		unproven bool
	}{"no key": {nil, false}, "its key": {[]*rsa.PublicKey{key[0].Public()}, false},
		"another": {[]*rsa.PublicKey{key[other].Public()}, true},
		"both":    {[]*rsa.PublicKey{key[other].Public(), key[0].Public()}, false}} {
		p, err := NewMonthReader(w.store, c.keys...).Page("2026-11", 0)
		if err != nil || len(p.Documents) != 2 || p.Documents[0].Unproven != c.unproven || p.Documents[1].Unproven ||
			len(p.Documents[1].JSON) > 0 {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}
