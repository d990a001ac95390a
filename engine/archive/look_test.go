package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestKey(t *testing.T) {
	got := Key("ferreteria", "prod", "2026-11-21", "01", "9F2C3B1A-0000-4000-8000-000000000001", "pdf")
	if got != "ferreteria/DTES/prod/2026/11/21/DTE01/pdf/9F2C3B1A-0000-4000-8000-000000000001.pdf" {
		t.Error(got)
	}
	if err := checkKey(got); err != nil {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	good := Options{Endpoint: "https://s3.example:9000", Bucket: bucket, Prefix: "sucursales/centro", AccessKey: access,
		Secret: secret}
	a, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", good, good, good), fmt.Sprintf("%v %+v %#v %d", a, a, a,
		a)} {
		if strings.Contains(text, secret) {
			t.Error(text)
		}
	}
	for name, change := range map[string]func(*Options){
		"Endpoint":  func(o *Options) { o.Endpoint = "s3.example" },
		"Endpoint ": func(o *Options) { o.Endpoint = "https://s3.example/bucket" },
		"Bucket":    func(o *Options) { o.Bucket = "a/b" },
		"Prefix":    func(o *Options) { o.Prefix = "a/../b" },
		"AccessKey": func(o *Options) { o.AccessKey = "" },
		"Secret":    func(o *Options) { o.Secret = "" },
	} {
		o := good
		change(&o)
		if a, err := New(o); a != nil || err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStat(t *testing.T) {
	a := start(t).archive(t, nil)
	if o, err := a.Stat(t.Context(), key); !errors.Is(err, ErrNotFound) {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := a.Put(t.Context(), key, "application/pdf", document(1234)); err != nil {
		t.Fatal(err)
	}
	if o, err := a.Stat(t.Context(), key); err != nil || o.Key != key || o.Size != 1234 {
		t.Errorf("%+v %v", o, err)
	}
}

func TestList(t *testing.T) {
	s := start(t)
	a := s.archive(t, func(o *Options) { o.Prefix = "centro" })
	var want []string
	for n := range 1100 { // a page has 1,000
		k := fmt.Sprintf("DTES/%04d.json", n)
		want = append(want, k)
		path := s.Path("centro/" + k)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{}"),
			0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []string{"centro/otros/x", "sur/DTES/0000.json"} {
		if _, err := s.archive(t, nil).Put(t.Context(), k, "text/plain", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for o, err := range a.List(t.Context(), "DTES/") {
		if err != nil || o.Size != 2 {
			t.Fatal(o, err)
		}
		got = append(got, o.Key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d", len(got), len(want))
	}
	for o, err := range a.List(t.Context(), "none/") {
		t.Error(o, err)
	}
	for range a.List(t.Context(), "") {
		break
	}

	// A list that ends early says so.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, last := 0, error(nil)
	for _, err := range a.List(ctx, "") {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	if n > 1001 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d, then %v", n, last)
	}
	s.Kill()
	for _, err := range a.List(t.Context(), "") {
		if err == nil || kind(err) != "" {
			t.Error(err)
		}
	}
}

// A link opens one document for its life, and nothing else.
func TestPresign(t *testing.T) {
	s := start(t)
	a := s.archive(t, nil)
	data := document(5000)
	const second = "ferreteria/DTES/test/2026/11/21/DTE01/pdf/9F2C3B1A-0000-4000-8000-000000000002.pdf"
	for _, k := range []string{key, second} {
		if _, err := a.Put(t.Context(), k, "application/pdf", data); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: transport(t, s.Dial)}
	ask := func(method, link string) (int, http.Header, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, link, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, body
	}

	const disposition = `attachment; filename="9F2C3B1A-0000-4000-8000-000000000001.pdf"`
	link, err := a.Presign(t.Context(), key, 5*time.Minute, disposition)
	if err != nil || strings.Contains(link, secret) {
		t.Fatal(link, err)
	}
	status, header, body := ask(http.MethodGet, link)
	if status != 200 || !bytes.Equal(body, data) || header.Get("Content-Disposition") != disposition ||
		header.Get("Content-Type") != "application/pdf" {
		t.Errorf("%d %v", status, header)
	}

	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	altered := func(change func(*url.URL, url.Values)) string {
		v := *u
		q := u.Query()
		change(&v, q)
		v.RawQuery = q.Encode()
		return v.String()
	}
	past := func(life, ago time.Duration) (link string) { // as the appliance would have made it at that time
		now := time.Now()
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(now.Add(-ago)))
			var err error
			if link, err = a.Presign(t.Context(), key, life, ""); err != nil {
				t.Fatal(err)
			}
		})
		return link
	}
	other := s.archive(t, func(o *Options) { o.Secret = "otra" })
	forged, err := other.Presign(t.Context(), key, 5*time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := ask(http.MethodGet, past(5*time.Minute, 4*time.Minute)); status != 200 {
		t.Errorf("within its time: %d", status)
	}
	for name, link := range map[string]string{
		"expired":     past(5*time.Minute, 5*time.Minute+2*time.Second),
		"longer life": altered(func(_ *url.URL, q url.Values) { q.Set("X-Amz-Expires", "86400") }),
		"later date": altered(func(_ *url.URL, q url.Values) {
			q.Set("X-Amz-Date", time.Now().Add(time.Second).UTC().Format("20060102T150405Z"))
		}),
		"another document": altered(func(v *url.URL, _ url.Values) { v.Path = "/" + bucket + "/" + second }),
		"the bucket":       altered(func(v *url.URL, _ url.Values) { v.Path = "/" + bucket + "/" }),
		"other disposition": altered(func(_ *url.URL, q url.Values) {
			q.Set("response-content-disposition",
				"inline")
		}),
		"other content type": altered(func(_ *url.URL, q url.Values) { q.Set("response-content-type", "text/html") }),
		"signature": altered(func(_ *url.URL, q url.Values) {
			q.Set("X-Amz-Signature", strings.Repeat("0",
				64))
		}),
		"no signature":     altered(func(_ *url.URL, q url.Values) { q.Del("X-Amz-Signature") }),
		"no query":         altered(func(_ *url.URL, q url.Values) { clear(q) }),
		"another's secret": forged,
	} {
		if status, _, body := ask(http.MethodGet, link); status < 400 || status > 499 || bytes.Equal(body, data) {
			t.Errorf("%s: %d", name, status)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPost} {
		if status, _, _ := ask(method, link); status < 400 {
			t.Errorf("%s: %d", method, status)
		}
	}
	if !bytes.Equal(s.Held(t, key), data) {
		t.Error("a link changed the document")
	}
	for _, life := range []time.Duration{0, -time.Minute, 8 * 24 * time.Hour} {
		if link, err := a.Presign(t.Context(), key, life, ""); err == nil {
			t.Errorf("%s: %s", life, link)
		}
	}
	if link, err := a.Presign(t.Context(), "../x", time.Minute, ""); !errors.Is(err, ErrInvalid) {
		t.Error(link, err)
	}
}

// stalled answers with a body that never comes.
type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.Pipe()
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, Header: http.Header{}, Request: r, Body: body}, nil
}

// TestList_Stalled: a store that stalls in a list's answer ends the list.
func TestList_Stalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Options{Endpoint: "https://s3.example", Bucket: bucket, AccessKey: access, Secret: secret,
			Transport: stalled{}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, err = range a.List(t.Context(), "tienda/") {
		}
		if took := time.Since(began); err == nil || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestFetch_Listed: an object that the store lists and does not return is not an outage, whatever the store answers; a
// fault of one request costs another request, and a store that does not answer is asked once.
func TestFetch_Listed(t *testing.T) {
	const list = `<ListBucketResult><Name>b</Name><KeyCount>1</KeyCount><Contents><Key>a/1.jws</Key></Contents>` +
		`</ListBucketResult>`
	for name, c := range map[string]struct {
		gets   []string // the answers to GETs, in order; the last one is repeated
		list   int
		want   error
		unread bool
		asked  int
	}{
		"rotten":        {[]string{"500 InternalError"}, 200, errNow, true, 3},
		"no key":        {[]string{"403 AccessDenied"}, 200, ErrSetup, true, 3},
		"cold":          {[]string{"403 InvalidObjectState"}, 200, ErrCold, true, 3},
		"cut off":       {[]string{"200 "}, 200, io.ErrUnexpectedEOF, true, 3},
		"one request":   {[]string{"503 SlowDown", "404 NoSuchKey"}, 200, ErrNotFound, false, 3},
		"gone":          {[]string{"404 NoSuchKey"}, 200, ErrNotFound, false, 1},
		"all is denied": {[]string{"403 AccessDenied"}, 403, ErrSetup, false, 2},
		"outage":        {[]string{"503 SlowDown"}, 503, errNow, false, 2},
	} {
		asked := 0
		a, err := New(Options{Endpoint: "http://s3.example", Bucket: bucket, AccessKey: access, Secret: secret,
			PathStyle: true, Transport: lying(func(r *http.Request) (*http.Response, error) {
				asked++
				answer := &http.Response{StatusCode: c.list, Header: http.Header{}, Request: r,
					Body: io.NopCloser(strings.NewReader(list))}
				if !r.URL.Query().Has("list-type") {
					status, code, _ := strings.Cut(c.gets[0], " ")
					if len(c.gets) > 1 {
						c.gets = c.gets[1:]
					}
					answer.StatusCode, _ = strconv.Atoi(status)
					answer.Body = io.NopCloser(strings.NewReader("<Error><Code>" + code + "</Code></Error>"))
					if code == "" {
						answer.Header.Set("Last-Modified", "Mon, 30 Nov 2026 16:00:00 GMT")
						answer.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
					}
				}
				return answer, nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Fetch(t.Context(), "a/1.jws", 100); !errors.Is(err, c.want) ||
			errors.Is(err, ErrUnread) != c.unread || asked != c.asked {
			t.Errorf("%s: %d requests, %v", name, asked, err)
		}
	}
}
