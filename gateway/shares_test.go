package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/documents"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/door"
	"dtegate/gateway/reply"
)

// shared is a gateway whose requests come one by one over a wire.
type shared struct {
	*Gateway
	t   *testing.T
	now time.Time
}

type tills interface {
	Sales
	Documents
	Outbox
}

func newShared(t *testing.T, e tills, l Limits) *shared {
	s := &shared{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	s.Gateway = New(Options{Sales: e, Documents: e, Outbox: e, Tokens: tokensOf("hog", "quiet"),
		Now: func() time.Time { return s.now }, Limits: l})
	return s
}

// ask sends one request and returns its answer.
func (s *shared) ask(method, path, token string, size int) (status int, kind string, wait int) {
	s.t.Helper()
	body := ""
	if method == "POST" && !strings.HasPrefix(path, "/dte/resend/") {
		body = `{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"x","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`
		if strings.HasPrefix(path, "/dte/invalidacion/") {
			who := `{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678"}`
			body = `{"tipoAnulacion":2,"motivo":"x","responsable":` + who + `,"solicita":` + who + `}`
		}
		body += strings.Repeat(" ", max(0, size-len(body)))
	}
	w := &wire{in: bytes.NewReader(fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: x\r\nx-api-token: %s\r\nContent-Length: "+
		"%d\r\n\r\n%s", method, path, token, len(body), body))}
	_ = s.api.ServeConn(w)
	resp, err := http.ReadResponse(bufio.NewReader(&w.out), nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	_, kind, _ = strings.Cut(string(text), `"type":"`)
	kind, _, _ = strings.Cut(kind, `"`)
	wait, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return resp.StatusCode, kind, wait
}

func (s *shared) refusals(reason string) float64 {
	return metrictest.Value(s.t, s.metrics.refusals, "dte_http_refused_total/api/"+reason)
}

// Each token has its own allowance of stored bytes a day: once it is spent, that token alone is refused until midnight
// in El Salvador.
func TestShares_Daily(t *testing.T) {
	s := newShared(t, &said{stored: 120}, Limits{Daily: 450})
	for want, n := 201, 0; n < 8; n++ {
		if n >= 4 { // 4 sales of 120 bytes
			want = 429
		}
		status, kind, wait := s.ask("POST", "/dte/dte01", "hog", 0)
		if status != want || want == 429 && (kind != "QUOTA_EXCEEDED" || wait != 18*60*60) {
			t.Errorf("sale %d: %d %s, wait %d s", n+1, status, kind, wait)
		}
	}
	if status, kind, _ := s.ask("POST", "/dte/dte01", "quiet", 0); status != 201 {
		t.Errorf("another till: %d %s", status, kind)
	}
	if status, _, _ := s.ask("GET", "/dte/information", "hog", 0); status != 200 {
		t.Errorf("what stores nothing: %d", status)
	}
	status, kind, _ := s.ask("POST", "/dte/invalidacion/FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "hog", 0)
	if status != 429 || kind != "QUOTA_EXCEEDED" {
		t.Errorf("an invalidation: %d %s", status, kind)
	}
	if got := s.refusals("daily"); got != 5 {
		t.Errorf("%v are counted", got)
	}
	s.now = s.now.Add(16 * time.Hour) // the next day has begun in Greenwich
	if status, _, wait := s.ask("POST", "/dte/dte01", "hog", 0); status != 429 || wait != 2*60*60 {
		t.Errorf("two hours before midnight: %d, wait %d s", status, wait)
	}
	s.now = s.now.Add(2 * time.Hour)
	for n, want := range []int{200, 200, 200, 200, 429} { // an invalidation counts like a sale
		if status, kind, _ := s.ask("POST", "/dte/invalidacion/FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "hog", 0); status !=
			want {
			t.Errorf("invalidation %d of the next day: %d %s", n+1, status, kind)
		}
	}
}

// A token over its allowance still gets the answers to the sales that it has made: it may not have got the first.
func TestShares_DailyRepeated(t *testing.T) {
	s := newShared(t, &said{stored: 500, known: true}, Limits{Daily: 450})
	for n := range 3 {
		if status, kind, _ := s.ask("POST", "/dte/dte01", "hog", 0); status != 201 {
			t.Errorf("repetition %d: %d %s", n, status, kind)
		}
	}
	s.daily.add("2026-11-21", 1, 500, s.now)
	if status, kind, _ := s.ask("POST", "/dte/correccion/FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "hog", 0); status != 429 {
		t.Errorf("a correction with a sale's key: %d %s", status, kind)
	}
}

// A repetition costs nothing, and a restart charges no token for another day's bytes.
func TestShares_DailyRestart(t *testing.T) {
	replays := newShared(t, new(said), Limits{Daily: 100})
	for range 20 {
		if status, kind, _ := replays.ask("POST", "/dte/dte01", "hog", 0); status != 201 {
			t.Fatalf("a sale that was there already: %d %s", status, kind)
		}
	}
	s := newShared(t, &said{stored: 120}, Limits{Daily: 450})
	if status, _, _ := s.ask("POST", "/dte/dte01", "hog", 0); status != 201 { // before the store is read
		t.Fatal(status)
	}
	s.o.Usage = func(_ context.Context, day string) (map[int64]int64, error) {
		if day != "2026-11-21" {
			t.Errorf("asked for %s", day)
		}
		return map[int64]int64{1: 330}, nil
	}
	s.recall(t.Context())
	if status, kind, _ := s.ask("POST", "/dte/dte01", "hog", 0); status != 429 || kind != "QUOTA_EXCEEDED" {
		t.Errorf("after a restart: %d %s", status, kind)
	}
	if status, kind, _ := s.ask("POST", "/dte/dte01", "quiet", 0); status != 201 {
		t.Errorf("another till: %d %s", status, kind)
	}
	s.now = s.now.Add(18 * time.Hour)
	s.daily.add("2026-11-21", 1, 1<<40, s.now) // the reading went on over midnight
	if status, kind, _ := s.ask("POST", "/dte/dte01", "hog", 0); status != 201 {
		t.Errorf("the next day: %d %s", status, kind)
	}
}

// Large sales are paced by their bytes, small ones are not, and each token pays for its own.
func TestShares_LargeSales(t *testing.T) {
	s := newShared(t, new(said), Limits{Rate: 10_000, Burst: 10_000})
	sold := func(token string, size int) bool {
		t.Helper()
		status, kind, wait := s.ask("POST", "/dte/dte01", token, size)
		if status != 201 && (status != 429 || kind != "RATE_LIMITED" || wait < 1) {
			t.Errorf("%d %s, wait %d s", status, kind, wait)
		}
		return status == 201
	}
	n := 0
	for sold("hog", reply.MaxBody) {
		n++
	}
	if n != 8 {
		t.Errorf("%d of the largest at once, want 8", n)
	}
	if !sold("quiet", reply.MaxBody) || !sold("hog", door.SmallBody) {
		t.Error("another token's large sale, or a small one, is refused")
	}
	for range 20 {
		s.now = s.now.Add(500 * time.Millisecond)
		if sold("hog", reply.MaxBody) {
			n++
		}
	}
	if n != 8+10 {
		t.Errorf("%d in ten seconds more, want 10", n-8)
	}
	if s.refusals("large") != 11 {
		t.Errorf("%v are counted", s.refusals("large"))
	}
}

// slowLists is an engine whose lists take five seconds.
type slowLists struct {
	said
	mu      sync.Mutex
	working map[int64]int
	most    int
}

func (l *slowLists) List(_ context.Context, _ documents.Filter, c record.Caller) (*documents.Listing, error) {
	l.mu.Lock()
	l.working[c.TokenID]++
	l.most = max(l.most, l.working[c.TokenID])
	l.mu.Unlock()
	time.Sleep(5 * time.Second)
	l.mu.Lock()
	l.working[c.TokenID]--
	l.mu.Unlock()
	return new(documents.Listing), nil
}

// A caller who asks for many lists at once waits behind himself; a till's sale and list do not wait.
func TestShares_Readers(t *testing.T) {
	// fasthttp's clock of the Date header never ends: not in the bubble
	newShared(t, new(said), Limits{}).ask("GET", "/dte/information", "hog", 0)
	synctest.Test(t, func(t *testing.T) {
		lists := &slowLists{working: make(map[int64]int)}
		s := newShared(t, lists, Limits{})
		var asked sync.WaitGroup
		var mu sync.Mutex
		answers := make(map[int]int)
		for range 30 {
			asked.Go(func() {
				status, _, _ := s.ask("GET", "/dte/documentos?limite=1", "hog", 0)
				mu.Lock()
				answers[status]++
				mu.Unlock()
			})
		}
		synctest.Wait()
		began := time.Now()
		if status, _, _ := s.ask("POST", "/dte/dte01", "quiet", 0); status != 201 || time.Since(began) != 0 {
			t.Errorf("a sale: %d after %v", status, time.Since(began))
		}
		if status, _, _ := s.ask("GET", "/dte/documentos?limite=1", "quiet", 0); status != 200 ||
			time.Since(began) != 5*time.Second {
			t.Errorf("another's list: %d after %v", status, time.Since(began))
		}
		asked.Wait()
		if lists.most != 2 || answers[200] != 18 || answers[429] != 12 {
			t.Errorf("%d at once, answers %v", lists.most, answers)
		}
	})
}

// A caller who keeps asking after a 429 is answered later and later, whatever the 429 is for; another till's 429, and
// its own request once it is allowed, come at once.
func TestShares_Insistent(t *testing.T) {
	newShared(t, new(said), Limits{}).ask("GET", "/dte/information", "hog", 0)
	for _, c := range []struct {
		limits  Limits
		method  string
		path    string
		size    int
		allowed time.Duration // until the next request
	}{
		{Limits{Rate: 1, Burst: 1}, "GET", "/dte/information", 0, time.Second},
		{Limits{Large: 1 << 10}, "POST", "/dte/dte01", reply.MaxBody, 1024 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShared(t, new(said), c.limits)
			took := func(token string) time.Duration {
				began := time.Now()
				s.ask(c.method, c.path, token, c.size)
				return time.Since(began)
			}
			for n := range 2 * insistBurst {
				want := time.Duration(0)
				if n > insistBurst {
					want = insistPause
				}
				if got := took("hog"); got != want {
					t.Fatalf("%s %d: %v, want %v", c.path, n, got, want)
				}
			}
			took("quiet")
			if got := took("quiet"); got != 0 {
				t.Errorf("%s: another's refusal: %v", c.path, got)
			}
			s.now = s.now.Add(c.allowed)
			if got := took("hog"); got != 0 {
				t.Errorf("%s: its own request once it may: %v", c.path, got)
			}
		})
	}
}

// A token that may not mail a document elsewhere does not use up the document's resends, however often it tries.
func TestShares_Resends(t *testing.T) {
	fake := &said{err: &refusal.Error{Code: refusal.CodePermission}}
	s := newShared(t, fake, Limits{})
	for range resendsByToken + resendsOfDocument {
		s.ask("POST", "/dte/resend/"+saidCode, "hog", 0)
	}
	fake.err = nil
	if status, kind, _ := s.ask("POST", "/dte/resend/"+saidCode, "quiet", 0); status != http.StatusOK {
		t.Errorf("the token that may is answered %d %s", status, kind)
	}
}

// TestReads: two lists of a token and four of all are read at once; the token's next ones wait, and the seventeenth that
// waits is refused, counted as a list. A list whose time is over before its turn is answered to come again.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		g := New(Options{Now: time.Now, Registry: registry, Logger: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		list := func(token int64) (func(), error) { return g.reads(&call{token: &Token{ID: token}, deadline: ctx}) }
		for token := range int64(4) { // the third token finds no place free
			for range 2 {
				go func() { _, _ = list(7 + token) }()
				synctest.Wait()
			}
		}
		for range 14 {
			go func() { _, _ = list(9) }()
		}
		synctest.Wait()
		if _, err := list(9); problemCode(err) != refusal.CodeBusy {
			t.Errorf("one list too many of a token: %v", err)
		}
		values := metrictest.Values(t, registry)
		if values["dte_http_refused_total/api/readers"] != 1 || values["dte_http_refused_total/api/printing"] != 0 {
			t.Errorf("counted: %v", values)
		}
		ended := make(chan error)
		go func() { _, err := list(11); ended <- err }()
		synctest.Wait()
		stop()
		if err := <-ended; problemCode(err) != refusal.CodeUnavailable {
			t.Errorf("after its time: %v", err)
		}
	})
}

func problemCode(err error) string {
	e, _ := errors.AsType[*refusal.Error](err)
	if e == nil || e.Message == "" {
		return ""
	}
	return e.Code
}
