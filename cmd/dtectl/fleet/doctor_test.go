package fleet

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/archive"
	"dtegate/engine/archive/archivetest"
)

// openStore opens the bucket of a test's server.
func openStore(t testing.TB, endpoint string) *archive.Archive {
	t.Helper()
	a, err := archive.New(archive.Options{Endpoint: endpoint, Bucket: archivetest.Bucket, AccessKey: archivetest.Access,
		Secret: archivetest.Secret, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// statuses are an examination's, by check.
func statuses(x *examination) map[string]string {
	s := make(map[string]string)
	for _, f := range x.findings {
		s[f.Check] = f.Status
	}
	return s
}

// Servers of both makes keep the guarantees that a chain rests on.
func TestDoctor_Makes(t *testing.T) {
	for name, endpoint := range map[string]string{"versitygw": archivetest.Start(t).Endpoint(t),
		"gofakes3": archivetest.StartOther(t).Endpoint()} {
		x := newExamination(openStore(t, endpoint), 16, 20, time.Now)
		x.examine(t.Context())
		for _, f := range x.findings {
			t.Logf("%s: %+v", name, f)
			if f.Status != "ok" || (f.Status == "ok") != (f.Do == "") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if len(x.findings) < 7 {
			t.Errorf("%s: %d findings", name, len(x.findings))
		}
	}
}

// Each guarantee that a store, or a proxy before it, may break is found by its own check.
func TestDoctor_Broken(t *testing.T) {
	endpoint := archivetest.StartOther(t).Endpoint()
	for name, c := range map[string]struct {
		proxy func(*httputil.ReverseProxy) http.Handler
		check string // and what is found, and what to do about it
		says  string
	}{
		"ignores the condition": {ignoring, "create once", "a second object was written over the first in spite of " +
			"If-None-Match: *: the store ignores If-None-Match: use another store, or a version that obeys it"},
		"refuses in other words": {answering("PUT", "/once", 400), "create once", "the second writer was not refused " +
			"with 412: "},
		"looks first, writes then": {looking, "race", "not exactly one was told that it created the object, or the " +
			"object is not the winner's: two boxes could take one epoch, two directors one version: do not run a chain"},
		"takes it and says no": {denying, "race", "in 5 of 5 races of 8 writers, not exactly one was told"},
		"reads from a cache": {caching, "read back", "4 of 5 reads returned an older object: a cache stands between, or " +
			"the store is eventually consistent: statuses and orders would be old"},
		"overwrites nothing": {answering("PUT", "/status", 403), "read back",
			": the access key must write, overwrite and read under fleet/v1/"},
		"forbids what is not there": {forbidding, "missing", "allow s3:ListBucket on the bucket: without it stores " +
			"answer 403 for a missing key"},
		"errs at what is not there": {answering("GET", "/missing", 503), "missing",
			": boxes poll for objects that do not exist yet: the store must answer 404"},
		"has old times": {misdating(-3 * time.Hour), "clock", "an object that was just written is 3h0m0s old: the centre " +
			"cannot recognise a silent box on this store"},
		"has times to come":      {misdating(3 * time.Hour), "clock", " is -3h0m0s old: the centre cannot"},
		"has times a little off": {misdating(-62 * time.Second), "clock", "an object that was just written is 1m"},
		"forbids the clock":      {answering("PUT", "/clock", 403), "clock", ": the access key must overwrite and read"},
		"lists nothing": {unlisting, "list", "0 of 5 new objects are listed: fleet status reads lists: it may not name a " +
			"new branch at once"},
		"forbids lists": {answering("GET", "/"+archivetest.Bucket+"/", 403), "list",
			": the centre's access key needs s3:ListBucket; a box's does not list"},
		"does not answer":  {failing, "reach", ": the store does not answer as it should: try again, then ask who runs it"},
		"forbids all":      {answering("PUT", "", 403), "reach", ": look at endpoint, bucket, region and path_style, and at"},
		"has no room left": {answering("PUT", "", 507), "reach", ": make room in the store, or raise its quota"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(endpoint)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(c.proxy(httputil.NewSingleHostReverseProxy(u)))
			defer server.Close()
			x := newExamination(openStore(t, server.URL), 8, 5, time.Now)
			x.examine(t.Context())
			want := "fail"
			if name == "lists nothing" {
				want = "warn"
			}
			i := slices.IndexFunc(x.findings, func(f term.Finding) bool { return f.Check == c.check })
			if got := statuses(x)[c.check]; got != want || !strings.Contains(x.findings[i].What+": "+x.findings[i].Do, c.says) {
				t.Errorf("%s is %q: %+v", c.check, got, x.findings)
			}
		})
	}
}

func ignoring(next *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		next.ServeHTTP(w, r)
	})
}

// looking handles the condition as a careless server does: it checks whether the key is free, and then writes. It is
// correct as long as nobody races.
func looking(next *httputil.ReverseProxy) http.Handler {
	var mu sync.Mutex
	waiting := make(map[string]chan struct{}) // a writer that found the key free, until another one has too
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.Header.Get("If-None-Match") == "" {
			next.ServeHTTP(w, r)
			return
		}
		r.Header.Del("If-None-Match")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		look := httptest.NewRecorder()
		next.ServeHTTP(look, httptest.NewRequest(http.MethodHead, r.URL.Path, nil))
		if look.Code == http.StatusOK {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `<Error><Code>PreconditionFailed</Code></Error>`)
			return
		}
		mu.Lock()
		other := waiting[r.URL.Path]
		if other == nil {
			mine := make(chan struct{})
			waiting[r.URL.Path] = mine
			mu.Unlock()
			select {
			case <-mine:
			case <-time.After(100 * time.Millisecond): // nobody races for this key
			}
		} else {
			select {
			case <-other:
			default:
				close(other)
			}
			mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// caching answers with the first body that it saw of a key.
func caching(next *httputil.ReverseProxy) http.Handler {
	var mu sync.Mutex
	seen := make(map[string]*httptest.ResponseRecorder)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		answer := seen[r.URL.Path]
		if answer == nil {
			answer = httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			if answer.Code == http.StatusOK {
				seen[r.URL.Path] = answer
			}
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

func forbidding(next *httputil.ReverseProxy) http.Handler {
	next.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusNotFound {
			r.StatusCode, r.Body = http.StatusForbidden,
				io.NopCloser(strings.NewReader(`<Error><Code>AccessDenied</Code></Error>`))
			r.Header.Del("Content-Length")
		}
		return nil
	}
	return next
}

func misdating(off time.Duration) func(*httputil.ReverseProxy) http.Handler {
	return func(next *httputil.ReverseProxy) http.Handler {
		next.ModifyResponse = func(r *http.Response) error {
			if r.Header.Get("Last-Modified") != "" {
				r.Header.Set("Last-Modified", time.Now().Add(off).UTC().Format(http.TimeFormat))
			}
			return nil
		}
		return next
	}
}

// denying tells every racer that another one has won.
func denying(next *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/race/") {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, `<Error><Code>PreconditionFailed</Code></Error>`)
	})
}

// answering answers the requests for keys that end so with a status.
func answering(method, end string, status int) func(*httputil.ReverseProxy) http.Handler {
	var written atomic.Bool // the first object is written
	return func(next *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method || !strings.HasSuffix(r.URL.Path, end) || end == "/once" && !written.Swap(true) {
				next.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(status)
		})
	}
}

func unlisting(next *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("list-type") {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, `<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>`)
	})
}

func failing(*httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
}
