package outbox_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// crowd is a branch that has archived many documents, a thousand a day, and an object store that lists and knows their
// objects. Nothing except the branch's store grows with their number.
type crowd struct{ documents int }

func (c *crowd) code(i int) dte.Code {
	return dte.Code{0: byte(i >> 16), 1: byte(i >> 8), 2: byte(i), 6: 0x40, 8: 0x80}
}

func (c *crowd) date(i int) string {
	return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i/1000).Format(time.DateOnly)
}

func (c *crowd) key(object int) string { // in the order of the keys
	i, file := object/2000*1000+object%1000, object/1000%2
	return archive.Key("tienda", "test", c.date(i), "01", c.code(i).String(), outbox.ArchiveFiles[file])
}

func (c *crowd) tag(key string) string {
	name := path.Base(key)
	return name[:8] + strings.TrimPrefix(path.Ext(name), ".")
}

// missing is one PDF of each thousand.
func (c *crowd) missing(object int) bool { return object%2000 == 1007 }

// fill appends documents in their state after archiving.
func (c *crowd) fill(t *testing.T, s *storage.Store) {
	t.Helper()
	var wg sync.WaitGroup
	work := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range work {
				code := c.code(i)
				h := &record.Head{Document: "01", Ambiente: "00", Date: c.date(i), Form: record.FormNormal,
					Delivery: &record.Delivery{Archive: &record.Step{Result: record.StepDone}}}
				for file, ext := range outbox.ArchiveFiles {
					h.Delivery.Archive.Held[file] = record.ArchivedObject{Sum: strings.Repeat("x", 44),
						Tag: c.tag(archive.Key("tienda", "test", h.Date, "01", code.String(), ext))}
				}
				head, err := json.Marshal(h)
				if err == nil {
					_, err = s.Append(context.Background(), storage.Keys{Series: fmt.Sprintf("00/01/M001/P%03d/2026",
						i%8)}, storage.Draft{Code: storage.Code(code), State: record.Accepted, Head: head})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range c.documents {
		work <- i
	}
	close(work)
	wg.Wait()
}

// ServeHTTP answers the listing of a bucket and the request for one object, as an object store does.
func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("list-type") != "2" {
		w.WriteHeader(http.StatusNotFound) // only missing objects are asked for
		return
	}
	type content struct {
		Key, LastModified, ETag string
		Size                    int
	}
	type page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
	p := page{IsTruncated: from+1000 < 2*c.documents, NextContinuationToken: strconv.Itoa(from + 1000)}
	for o := from; o < min(from+1000, 2*c.documents); o++ {
		if !c.missing(o) {
			p.Contents = append(p.Contents, content{c.key(o), "2026-11-21T12:00:00.000Z",
				strconv.Quote(c.tag(c.key(o))), 1})
		}
	}
	_ = xml.NewEncoder(w).Encode(p) // the client may be gone
}

// A check of many documents finds each missing one, and its memory does not grow with them: DTE_SOAK=1 makes it a
// million.
func TestArchiveCheck_Many(t *testing.T) {
	c, create := &crowd{documents: 4000}, enginetest.NewWorld
	if os.Getenv("DTE_SOAK") != "" {
		c.documents, create = 1_000_000, enginetest.NewWorldOnDisk
	}
	w := create(t)
	defer w.Close()
	c.fill(t, w.Store)
	server := httptest.NewServer(c)
	defer server.Close()
	a, err := archive.New(archive.Options{Endpoint: server.URL, Bucket: "documentos", AccessKey: "a", Secret: "s",
		PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	before, most, asked := int64(enginetest.Heap()), int64(0), 0
	found := make(map[string]bool)
	check := &outbox.ArchiveCheck{Store: w.Store, Archive: a, Slug: "tienda", Ambiente: "00",
		Found: func(f outbox.ArchiveFinding) error { found[f.Kind+" "+f.Key] = true; return nil },
		Progress: func(done, total int64) error {
			if asked++; asked%max(1, c.documents/5000) == 0 {
				most = max(most, int64(enginetest.Heap()))
			}
			if total != int64(2*c.documents) || done > total {
				t.Errorf("%d of %d", done, total)
			}
			return nil
		}}
	began := time.Now()
	totals, err := check.Run(t.Context())
	if err != nil || totals.Documents != c.documents || totals.Findings[outbox.ArchiveMissing] != c.documents/1000 ||
		len(totals.Findings) != 1 || asked != totals.Objects/1000 || asked == 0 {
		t.Fatalf("%+v %v", totals, err)
	}
	t.Logf("%d documents in %v, the heap grew by %d KiB", c.documents, time.Since(began), (most-before)>>10)
	for o := range 2 * c.documents {
		if c.missing(o) != found["missing "+c.key(o)] {
			t.Fatalf("%s: %v", c.key(o), found["missing "+c.key(o)])
		}
	}
	if most-before > 48<<20 { // the store's cache, 32 MiB
		t.Errorf("the heap grew by %d MiB", (most-before)>>20)
	}
}

// TestArchiveCheck_Read: an object listed with its recorded tag counts as unchanged, unless every object is to be read;
// an object with another tag, or none, is asked for.
func TestArchiveCheck_Read(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, _ *enginetest.PostOffice) {
		r := b.Issue(enginetest.SaleTo("a", ""))
		b.Issue(enginetest.SaleTo("b", ""))
		time.Sleep(time.Minute)
		whole, sum := string(shelf.Get(r.JSONURL)), shelf.Sums[r.JSONURL]
		for _, c := range []struct {
			name, object, sum, tag string
			read                   bool
			want                   int
		}{
			{"as archived", whole, sum, "1", false, 0},
			{"as archived, read", whole, sum, "1", true, 0},
			{"rotten behind its tag", "{}", sum, "1", false, 0},
			{"rotten behind its tag, read", "{}", sum, "1", true, 1},
			{"replaced", "{}", "other", "2", false, 1},
			{"copied by the store", whole, sum, "2", false, 0},
			{"replaced, in a list without tags", "{}", "other", "", false, 1},
			{"in a list without tags", whole, sum, "", false, 0},
		} {
			shelf.Put(r.JSONURL, c.object, c.sum)
			shelf.Mu.Lock()
			shelf.Tag = c.tag
			shelf.Mu.Unlock()
			var found []outbox.ArchiveFinding
			check := &outbox.ArchiveCheck{Read: c.read, Progress: func(_, _ int64) error { return nil },
				Found: func(f outbox.ArchiveFinding) error { found = append(found, f); return nil }}
			totals, err := b.Engine.Outbox().CheckArchive(context.Background(), check)
			if err != nil || totals.Documents != 2 || totals.Objects != 4 || len(found) != c.want ||
				c.want == 1 && (found[0].Kind != outbox.ArchiveAltered || found[0].Key != r.JSONURL || found[0].Code != r.Code) {
				t.Errorf("%s: %+v, %+v, %v", c.name, found, totals, err)
			}
		}
		// The archive's disk is rotten: it lists an object, and its bytes are gone. The others are read.
		shelf.Put(r.JSONURL, whole, sum)
		shelf.Fail = func(key string) bool { return key == r.JSONURL }
		var found []outbox.ArchiveFinding
		totals, err := b.Engine.Outbox().CheckArchive(context.Background(), &outbox.ArchiveCheck{Read: true,
			Progress: func(_, _ int64) error { return nil },
			Found:    func(f outbox.ArchiveFinding) error { found = append(found, f); return nil }})
		if err != nil || totals.Objects != 4 || len(found) != 1 || found[0].Kind != outbox.ArchiveAltered {
			t.Errorf("%+v, %+v, %v", found, totals, err)
		}
	})
}

// TestArchiveCheck_Foreign: an object that belongs to no document of the branch, or lies elsewhere than its document
// says, is a finding. In a shared archive, a document of another branch is none.
func TestArchiveCheck_Foreign(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, _ *enginetest.PostOffice) {
		r := b.Issue(enginetest.SaleTo("a", ""))
		time.Sleep(time.Minute)
		folder, name := path.Split(r.JSONURL)
		lacking := b.Issue(enginetest.SaleTo("b", "")) // so that the check looks for one by its key
		time.Sleep(time.Minute)
		shelf.Mu.Lock()
		delete(shelf.Objects, lacking.JSONURL)
		shelf.Mu.Unlock()
		others := folder + "00000000-0000-4000-8000-000000000001.json"
		stray, junk := path.Join(folder, "../pdf", name), folder+"notes.txt" // the JSON is in the folder of the PDFs
		for _, key := range []string{others, stray, junk} {
			shelf.Put(key, "{}", "x")
		}
		for shared, want := range map[bool][]string{false: {others, junk, stray}, true: {junk, stray}} {
			var got []string
			check := &outbox.ArchiveCheck{Shared: shared, Progress: func(_, _ int64) error { return nil },
				Found: func(f outbox.ArchiveFinding) error {
					if f.Kind == outbox.ArchiveMissing && f.Key == lacking.JSONURL && f.Code == lacking.Code {
						return nil
					}
					if got = append(got, f.Key); f.Kind != outbox.ArchiveForeign || (f.Code == r.Code) != (f.Key == stray) {
						t.Errorf("%+v", f)
					}
					if f.Key == junk { // a document that is archived during the check is not looked for
						b.Issue(enginetest.SaleTo("", ""))
						time.Sleep(time.Minute)
					}
					return nil
				}}
			totals, err := b.Engine.Outbox().CheckArchive(context.Background(), check)
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) || totals.Findings[outbox.ArchiveForeign] != len(want) ||
				totals.Findings[outbox.ArchiveMissing] != 1 {
				t.Errorf("shared %v: %v, want %v; %+v %v", shared, got, want, totals, err)
			}
		}
	})
}
