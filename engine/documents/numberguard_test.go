package documents

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
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

// Objects that a bucket lists and does not return: its index is wrong, or they are in S3 Glacier.
const gone, cold, denied = "gone", "<Error><Code>InvalidObjectState</Code></Error>",
	"<Error><Code>AccessDenied</Code></Error>"

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
	} else if !there || string(held) == gone {
		answer.StatusCode, held = http.StatusNotFound, nil
	} else if text := string(held); text == cold || text == denied {
		answer.StatusCode = http.StatusForbidden
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
	const first, second, third = "00/01/M001/P001/2026", "00/03/M001/P001/2026", "00/14/M001/P001/2026"
	for name, c := range map[string]struct {
		archived map[string]string // control numbers, by day
		want     map[string]uint64
		before   int    // other documents of the last day, of type 01, which are listed first
		of       string // the point of sale of these; M002P001 by default
		strange  bool   // a document gives another date than its key
		lacks    string // what the store answers for the documents of before
	}{
		"nothing":         {},
		"the last number": {archived: map[string]string{"DTE-01-M001P001-000000000000003": "2026-11-23"}},
		"one ahead": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			want: map[string]uint64{first: 4}},
		"the highest of them": {archived: map[string]string{"DTE-01-M001P001-000000000000006": "2026-11-23",
			"DTE-01-M001P001-000000000000005": "2026-11-22"}, want: map[string]uint64{first: 6}},
		"two series": {archived: map[string]string{"DTE-01-M001P001-000000000000009": "2026-11-23",
			"DTE-03-M001P001-000000000000001": "2026-11-23"}, want: map[string]uint64{first: 9, second: 1}},
		"the day before": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-20"},
			want: map[string]uint64{first: 4}},
		"long ago":              {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-18"}},
		"another point of sale": {archived: map[string]string{"DTE-01-M001P002-000000000000009": "2026-11-23"}},
		"another establishment": {archived: map[string]string{"DTE-01-M002P001-000000000000009": "2026-11-23"}},
		"no control number":     {archived: map[string]string{"DTE-01": "2026-11-23"}},
		"too far": {archived: map[string]string{"DTE-01-M001P001-999999999999999": "2026-11-23",
			"DTE-01-M001P001-000000000000004": "2026-11-23"}, want: map[string]uint64{first: 4}},
		"of no year": {archived: map[string]string{"DTE-01-M001P001-000000000000003": "2026-11-23"}, strange: true},
		"some of other branches": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			want: map[string]uint64{first: 4}, before: 300},
		"many of other branches": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-22",
			"DTE-01-M001P001-000000000000009": "2026-11-23"}, want: map[string]uint64{first: 9}, before: 600},
		"of another type": {archived: map[string]string{"DTE-03-M001P001-000000000000001": "2026-11-23"},
			want: map[string]uint64{second: 1}, before: 600},
		"many of its own": {archived: map[string]string{"DTE-01-M001P001-000000000000700": "2026-11-23",
			"DTE-03-M001P001-000000000000001": "2026-11-22"}, want: map[string]uint64{first: 700, second: 1},
			before: 600, of: "M001P001"},
		"listed and gone": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			want: map[string]uint64{first: 4}, before: 3, lacks: gone},
		"cold": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-22",
			"DTE-03-M001P001-000000000000001": "2026-11-22"}, want: map[string]uint64{first: 4, second: 1}, before: 3,
			lacks: cold},
		"cold in part": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			want: map[string]uint64{first: 4}, before: 3, lacks: cold},
		"denied in part": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-23"},
			want: map[string]uint64{first: 4}, before: 2, lacks: denied},
		"denied": {archived: map[string]string{"DTE-01-M001P001-000000000000004": "2026-11-22",
			"DTE-03-M001P001-000000000000001": "2026-11-23"}, want: map[string]uint64{first: 4, second: 1}, before: 3,
			lacks: denied},
		"recover settled before all were read": {archived: map[string]string{
			"DTE-01-M001P001-000000000000002": "2026-11-22", "DTE-01-M001P001-000000000000009": "2026-11-23"},
			want: map[string]uint64{first: 9}, before: 600},
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
			objects, n := bucket{"tienda/DTES/test/2026/11/23/DTE01/pdf/x.pdf": nil}, byte(100)
			put := func(day, control string, code dte.Code) {
				objects[archive.Key("tienda", "test", day, control[4:6], code.String(), "json")] = fmt.Appendf(nil,
					`{"identificacion":{"numeroControl":%q,"fecEmi":%q}}`, control, day)
			}
			for i := range c.before {
				put("2026-11-23", fmt.Sprintf("DTE-01-%s-%015d", cmp.Or(c.of, "M002P001"), i+1),
					dte.Code{0, byte(i >> 8), byte(i)})
			}
			for key := range objects {
				if c.lacks != "" && path.Ext(key) == ".json" {
					objects[key] = []byte(c.lacks)
				}
			}
			for control, day := range c.archived {
				n++
				put(day, control, dte.Code{n})
			}
			if c.strange {
				objects[archive.Key("tienda", "test", "2026-11-23", "01", dte.Code{98}.String(), "json")] = []byte(
					`{"identificacion":{"numeroControl":"DTE-01-M001P001-000000000000002","fecEmi":"abcd-11-23"}}`)
			}
			put("2026-11-22", "DTE-01-M001P001-000000000000010", dte.Code{99})
			for key, data := range objects { // too large, and without this an own document
				if strings.Contains(key, dte.Code{99}.String()) {
					objects[key] = append(data, bytes.Repeat([]byte(" "), archive.MaxDocument)...)
				}
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
			err = g.AskArchive(context.Background(), points, []string{"01", "03"}, now.Add(-48*time.Hour), now)
			if (err != nil) != (c.lacks == denied) { // the question stays open
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

// TestAskArchive_Bounded: not many documents of each day are read while none is of this branch.
func TestAskArchive_Bounded(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	store := guarded(t, now)
	objects := bucket{}
	for day := range 3 {
		for i := range 1000 {
			objects[archive.Key("tienda", "test", dte.Date(now.AddDate(0, 0, -day)), "01",
				dte.Code{byte(i >> 8), byte(i)}.String(), "json")] = []byte(`{}`)
		}
	}
	read := counted{objects, new(int)}
	shelf, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "documentos",
		AccessKey: "a", Secret: "s", PathStyle: true, Transport: read})
	if err != nil {
		t.Fatal(err)
	}
	g := NewNumberGuard(store, record.Issuer{Slug: "tienda", Ambiente: "00"}, shelf, quiet)
	if err := g.AskArchive(t.Context(), nil, []string{"01"}, now.AddDate(0, 0, -1), now); err != nil {
		t.Fatal(err)
	}
	if want := 3 * (few + many); *read.objects != want {
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

// TestAskArchive_GoesOn: after an error, the next call reads again only the folder in which the error was.
func TestAskArchive_GoesOn(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		of     string // the documents' point of sale
		fails  int    // this read, and the second try
		reads  int
		behind string
	}{
		// of the three days: few of the last, and all
		"its own": {"M001P001", 65, few + 3*30 + 30 + 1, "el 129 de"},
		// few of each, and many
		"others'": {"M002P001", 3*few + 65, 3*few + 3*30 + 30 + 1, "nil"},
	} {
		objects, read := bucket{}, make(map[string]int)
		for day := range 3 {
			for i := range 30 {
				objects[archive.Key("tienda", "test", dte.Date(now.AddDate(0, 0, -day)), "01",
					dte.Code{byte(day), byte(i)}.String(), "json")] = fmt.Appendf(nil,
					`{"identificacion":{"numeroControl":"DTE-01-%s-%015d"}}`, c.of, 100-30*day+i)
			}
		}
		shelf, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "documentos", AccessKey: "a",
			Secret: "s", PathStyle: true, Transport: breaking{objects, read, c.fails}})
		if err != nil {
			t.Fatal(err)
		}
		g := NewNumberGuard(guarded(t, now), record.Issuer{Slug: "tienda", Ambiente: "00"}, shelf, quiet)
		points := []record.Point{{Establishment: "M001", PointOfSale: "P001"}}
		for call, fails := range []bool{true, false} {
			if err := g.AskArchive(t.Context(), points, []string{"01"}, now.AddDate(0, 0, -1), now); (err != nil) != fails {
				t.Fatalf("%s: call %d: %v", name, call, err)
			}
		}
		if n := sumOf(read); n != c.reads || len(read) != len(objects) ||
			!strings.Contains(fmt.Sprint(g.Behind()), c.behind) {
			t.Errorf("%s: %d reads of %d objects: %v", name, n, len(read), g.Behind())
		}
	}
}

func sumOf(read map[string]int) (n int) {
	for _, times := range read {
		n += times
	}
	return n
}

// breaking fails a read of an object, by its place among all reads, and the next, and counts the reads of each object.
type breaking struct {
	http.RoundTripper
	read  map[string]int
	which int
}

func (b breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("list-type") == "" {
		b.read[r.URL.Path]++
		if n := sumOf(b.read); n == b.which || n == b.which+1 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return b.RoundTripper.RoundTrip(r)
}
