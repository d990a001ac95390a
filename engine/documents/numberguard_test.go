package documents

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// bucket is an archive's store: it lists and returns its objects.
type bucket map[string][]byte

func (b bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r}
	held, there := b[strings.TrimPrefix(r.URL.Path, "/documentos/")]
	if r.URL.Query().Get("list-type") == "2" {
		text := `<ListBucketResult><Name>documentos</Name><IsTruncated>false</IsTruncated>`
		for _, key := range slices.Sorted(maps.Keys(b)) {
			if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				text += fmt.Sprintf(`<Contents><Key>%s</Key><Size>%d</Size><ETag>"1"</ETag></Contents>`, key,
					len(b[key]))
			}
		}
		held = []byte(text + `</ListBucketResult>`)
		answer.Header.Set("Content-Type", "application/xml")
	} else if !there {
		answer.StatusCode = http.StatusNotFound
	}
	answer.ContentLength, answer.Body = int64(len(held)), io.NopCloser(bytes.NewReader(held))
	answer.Header.Set("Content-Length", fmt.Sprint(len(held)))
	answer.Header.Set("ETag", `"1"`)
	answer.Header.Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
	return answer, nil
}

// TestAskArchive: a number in the archive above the store's last holds its series, up to the highest such number; a
// number that the store has given, a number of another branch or year, and an unreadable object hold nothing. A restart
// keeps the hold, and a hold that comes later is added.
func TestAskArchive(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	const crowded, busy = "a day of the issuer's other branches", "among other branches' documents"
	const many, shared = "a day of many own documents", "a busy day after one that shows the lack"
	const early = "recover settled before all were read"
	const first, second, third = "00/01/M001/P001/2026", "00/03/M001/P001/2026", "00/14/M001/P001/2026"
	for name, c := range map[string]struct {
		archived map[string]string // control numbers, by day
		want     map[string]uint64
	}{
		"nothing":         {nil, nil},
		"the last number": {map[string]string{"DTE-01-M001P001-000000000000003": "2026-11-23"}, nil},
		"one ahead": {map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			map[string]uint64{first: 4}},
		"the highest of them": {map[string]string{"DTE-01-M001P001-000000000000006": "2026-11-23",
			"DTE-01-M001P001-000000000000005": "2026-11-22"}, map[string]uint64{first: 6}},
		"two series": {map[string]string{"DTE-01-M001P001-000000000000009": "2026-11-23",
			"DTE-03-M001P001-000000000000001": "2026-11-23"}, map[string]uint64{first: 9, second: 1}},
		"the day before": {map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-20"},
			map[string]uint64{first: 4}},
		"long ago":              {map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-18"}, nil},
		"another point of sale": {map[string]string{"DTE-01-M001P002-000000000000009": "2026-11-23"}, nil},
		"another establishment": {map[string]string{"DTE-01-M002P001-000000000000009": "2026-11-23"}, nil},
		"no control number":     {map[string]string{"DTE-01": "2026-11-23"}, nil},
		crowded: {map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-22",
			"DTE-01-M001P001-000000000000009": "2026-11-23"}, map[string]uint64{first: 9}},
		many: {map[string]string{"DTE-01-M001P001-000000000000700": "2026-11-23",
			"DTE-03-M001P001-000000000000001": "2026-11-22"}, map[string]uint64{first: 700, second: 1}},
		busy: {map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			map[string]uint64{first: 4}},
		shared: {map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-22",
			"DTE-01-M001P001-000000000000009": "2026-11-23"}, map[string]uint64{first: 9}},
		early: {map[string]string{"DTE-01-M001P001-000000000000003": "2026-11-22",
			"DTE-01-M001P001-000000000000009": "2026-11-23"}, map[string]uint64{first: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			store := guarded(t, now)
			for n := range byte(3) {
				_, err := store.Append(t.Context(), storage.Keys{Series: first},
					storage.Draft{Code: storage.Code{n + 1}, State: 1, Head: []byte("{}")})
				if err != nil {
					t.Fatal(err)
				}
			}
			objects, n := bucket{"tienda/DTES/test/2026/11/23/x.pdf": nil}, byte(100)
			point := "M002P001"
			if name == many {
				point = "M001P001"
			}
			for i := range map[string]int{crowded: 600, shared: 600, early: 600, busy: 300, many: 600}[name] {
				objects[fmt.Sprintf("tienda/DTES/test/2026/11/23/%s.json", dte.Code{0, byte(i >> 8), byte(i)})] =
					fmt.Appendf(nil, `{"identificacion":{"numeroControl":"DTE-01-%s-%015d","fecEmi":"2026-11-23"}}`,
						point, i)
				if name == shared && i < 100 {
					objects[fmt.Sprintf("tienda/DTES/test/2026/11/22/%s.json", dte.Code{0, 0, byte(i)})] = []byte("{}")
				}
			}
			for control, day := range c.archived {
				n++
				key := "tienda/DTES/test/" + strings.ReplaceAll(day, "-", "/") + "/" + dte.Code{n}.String() + ".json"
				objects[key] = fmt.Appendf(nil, `{"identificacion":{"numeroControl":%q,"fecEmi":%q}}`, control, day)
			}
			shelf, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "documentos",
				AccessKey: "a", Secret: "s", PathStyle: true, Transport: objects})
			if err != nil {
				t.Fatal(err)
			}
			issuer := record.Issuer{Slug: "tienda", Ambiente: "00"}
			g := NewNumberGuard(store, issuer, shelf, quiet)
			if g.Behind() != nil {
				t.Fatal("held before anybody asked")
			}
			points := []record.Point{{Establishment: "M001", PointOfSale: "P001"}}
			if err := g.AskArchive(context.Background(), points, now.Add(-48*time.Hour), now); err != nil {
				t.Fatal(err)
			}
			held, err := store.Held()
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]uint64)
			for _, w := range held {
				h := w.Series[0]
				if got[h.Series] = h.There; w.Medium != byArchive || h.Series == first && h.Here != 3 ||
					h.Series == second && h.Here != 0 {
					t.Errorf("%+v", h)
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("held %v, want %v", got, c.want)
			}
			if again := NewNumberGuard(store, issuer, shelf, quiet); (g.Behind() != nil) != (c.want != nil) ||
				(again.Behind() != nil) != (c.want != nil) {
				t.Errorf("%v, after a restart %v", g.Behind(), again.Behind())
			}
			// MH then has a number of another series: the refusal and the metric are about all held series.
			if _, err := store.Append(t.Context(), storage.Keys{Series: third},
				storage.Draft{Code: storage.Code{77}, State: 1, Head: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
			g.NumberTaken(dte.Code{77}.String(), "it exists")
			for _, g := range []*NumberGuard{g, NewNumberGuard(store, issuer, shelf, quiet)} {
				text := fmt.Sprint(g.Behind())
				for _, series := range append(slices.Collect(maps.Keys(c.want)), third) {
					if !strings.Contains(text, series) {
						t.Errorf("%s is held, and tills are told %s", series, text)
					}
				}
				if n := metrictest.Values(t, g.Gauge())["dte_numbers_ahead_series"]; n != float64(len(c.want)+1) {
					t.Errorf("%v series are held, says the metric, and %v are", n, len(c.want)+1)
				}
			}
		})
	}
}

// TestNumberGuard_Unread: what is held and cannot be read, or cannot be kept, stops the numbering all the same.
func TestNumberGuard_Unread(t *testing.T) {
	b := open(t)
	quiet := slog.New(slog.DiscardHandler)
	g := NewNumberGuard(b.store, record.Issuer{Ambiente: "00"}, nil, quiet)
	if err := g.Behind(); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	g.stopNumbering([]storage.Witness{{Medium: byMH, Series: []storage.Lead{{Series: "00/01/M001/P001/2026", Here: 1,
		There: 2}}}})
	if err := g.Behind(); err == nil || !strings.Contains(err.Error(), "00/01/M001/P001/2026") {
		t.Errorf("what cannot be kept: %v", err)
	}
	if err := NewNumberGuard(b.store, record.Issuer{Ambiente: "00"}, nil, quiet).Behind(); err == nil {
		t.Error("what cannot be read stops nothing")
	}
}

// guarded returns an empty store, closed when the test ends.
func guarded(t *testing.T, now time.Time) *storage.Store {
	t.Helper()
	o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: vfs.NewMem(), Logger: quiet,
		Now:   func() time.Time { return now },
		Fatal: func(m string) { panic(m) }}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

var quiet = slog.New(slog.DiscardHandler)

// TestAskArchive_Season: after months, not many of other branches' documents of each day are read.
func TestAskArchive_Season(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	store := guarded(t, now)
	objects, n := bucket{}, 0
	for day := range 40 {
		for range 100 {
			n++
			objects[fmt.Sprintf("tienda/DTES/test/%s/%s.json", now.AddDate(0, 0, -day).Format("2006/01/02"),
				dte.Code{byte(n >> 8), byte(n)})] = []byte(`{}`)
		}
	}
	read := counted{objects, new(int)}
	shelf, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "documentos",
		AccessKey: "a", Secret: "s", PathStyle: true, Transport: read})
	if err != nil {
		t.Fatal(err)
	}
	g := NewNumberGuard(store, record.Issuer{Slug: "tienda", Ambiente: "00"}, shelf, quiet)
	if err := g.AskArchive(t.Context(), nil, now.AddDate(0, 0, -38), now); err != nil {
		t.Fatal(err)
	}
	if want := 40*fewOthers + 10*100; *read.objects != want {
		t.Errorf("%d documents were read, want %d", *read.objects, want)
	}
}

// counted counts the objects that are read.
type counted struct {
	http.RoundTripper
	objects *int
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("list-type") == "" && strings.HasSuffix(r.URL.Path, ".json") {
		*c.objects++
	}
	return c.RoundTripper.RoundTrip(r)
}
