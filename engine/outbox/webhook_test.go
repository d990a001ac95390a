package outbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// erp receives a webhook: what it took, and how it answers the next posts; the last answer is repeated.
type erp struct {
	t       *testing.T
	answers []int // statuses; 0: the post is taken and the answer is lost
	bodies  []string
	at      []time.Time
	stop    func() // not nil: the hook is stopped while it gets the answer
}

func (e *erp) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	want := "sha256=" + Signature([]byte("a secret"), r.Header.Get("X-Dte-Timestamp"), body)
	if !hmac.Equal([]byte(r.Header.Get("X-Dte-Signature")), []byte(want)) || r.Method != http.MethodPost ||
		r.URL.String() != "https://erp.example.com/dte" {
		e.t.Errorf("%s %s, signed %s, want %s", r.Method, r.URL, r.Header.Get("X-Dte-Signature"), want)
	}
	status := e.answers[0]
	if len(e.answers) > 1 {
		e.answers = e.answers[1:]
	}
	e.bodies, e.at = append(e.bodies, string(body)), append(e.at, time.Now())
	if e.stop != nil {
		e.stop()
	}
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status),
		Header: http.Header{"Location": {"https://elsewhere.example.com"}},
		Body:   io.NopCloser(strings.NewReader("x")), Request: r}, nil
}

// hookWorld is a store with results, and the hooks that post them.
type hookWorld struct {
	t     *testing.T
	store *storage.Store
	n     byte
	err   error        // of the next call of next
	log   bytes.Buffer // of the hooks
}

func newHookWorld(t *testing.T) *hookWorld {
	o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler),
		Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return &hookWorld{t: t, store: s}
}

// result adds one result to the store.
func (w *hookWorld) result() {
	w.t.Helper()
	w.n++
	code := storage.Code{w.n}
	if _, err := w.store.Append(w.t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: code,
		State: 4}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Advance(w.t.Context(), code, 4, storage.Change{To: 2, Announce: true}); err != nil {
		w.t.Fatal(err)
	}
}

// next is HookOptions.Next: the codes of the results, separated by spaces.
func (w *hookWorld) next(ctx context.Context, after uint64) ([]byte, uint64, error) {
	for {
		rung := w.store.Announced()
		if err := w.err; err != nil {
			w.err = nil
			return nil, after, err
		}
		list, err := w.store.Changes(after, 500)
		if err != nil {
			return nil, after, err
		}
		var codes []string
		for _, a := range list {
			codes, after = append(codes, fmt.Sprint(a.Code[0])), a.Sequence
		}
		if codes != nil {
			return []byte(strings.Join(codes, " ")), after, nil
		}
		select {
		case <-ctx.Done():
			return nil, after, nil
		case <-rung:
		}
	}
}

// start runs a hook; the returned function ends it.
func (w *hookWorld) start(e *erp) (h *Hook, stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	if e.stop != nil {
		e.stop = cancel
	}
	h = NewHook(HookOptions{URL: "https://erp.example.com/dte", Secret: []byte("a secret"), Store: w.store,
		Ambiente: "00", Next: w.next,
		Transport: e, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	return h, func() { cancel(); <-done }
}

// TestHook_EachFailureAnew: after a post that was taken, the pauses of the next failure begin with the shortest. Each
// failure is logged once. A feed that cannot be read is a failure too.
func TestHook_EachFailureAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHookWorld(t)
		e := &erp{t: t, answers: []int{500, 500, 500, 500, 200, 300, 500, 299}}
		_, stop := w.start(e)
		for range 2 {
			synctest.Wait()
			w.result()
			time.Sleep(time.Hour)
		}
		stop()
		w.err = errors.New("the feed cannot be read")
		began := time.Now()
		_, stop = w.start(e)
		w.result()
		time.Sleep(time.Hour)
		stop()
		if last := e.at[len(e.at)-1]; last.Sub(began) != time.Second {
			t.Errorf("after an error of the feed the next post is %v later", last.Sub(began))
		}
		if n := strings.Count(w.log.String(), "level=WARN"); n != 3 {
			t.Errorf("%d failures are logged:\n%s", n, &w.log)
		}
		e.at = e.at[:len(e.at)-1]
		var pauses []time.Duration
		for i := range e.at[1:] {
			pauses = append(pauses, e.at[i+1].Sub(e.at[i]))
		}
		s := time.Second
		if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, time.Hour - 15*s, s, 2 * s}; !slices.Equal(pauses, want) {
			t.Errorf("paused %v, want %v", pauses, want)
		}
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPost_First: a letter that a till waits for is due before every other delivery, however long those have waited.
func TestPost_First(t *testing.T) {
	w := newHookWorld(t)
	now := time.Now()
	box := &Outbox{o: Options{Store: w.store, Now: func() time.Time { return now }, Rand: rand.Reader}}
	box.delivery.init(box.o.Now)
	for _, ago := range []time.Duration{0, time.Hour, 400 * 24 * time.Hour} {
		w.n++
		if _, err := w.store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: storage.Code{w.n}, State: 2,
			Due: &storage.Due{Queue: record.QueueDeliver, At: now.Add(-ago)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := box.post(t.Context(), Mailing{Document: "d"}, nil); err != nil {
		t.Fatal(err)
	}
	first, err := w.store.Due(record.QueueDeliver, now, 1)
	if err != nil || len(first) != 1 || first[0].State != record.LetterOpen {
		t.Errorf("first is %+v, %v", first, err)
	}
	if err := w.store.Close(); err != nil {
		t.Error(err)
	}
}

// TestHook: results are posted in order. A result that is refused, redirected or lost is posted again, with growing
// pauses, before any later one. After a restart the hook goes on behind the last that was taken. A new hook begins with
// the results after its first start.
func TestHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHookWorld(t)
		w.result() // 1, before the hook's first start
		e := &erp{t: t, answers: []int{200, 500, 302, 0, 204}}
		h, stop := w.start(e)
		synctest.Wait()
		w.result() // 2
		synctest.Wait()
		w.result() // 3: refused, redirected, lost
		time.Sleep(2 * time.Second)
		w.result() // 4
		synctest.Wait()
		if late := metrictest.Value(t, h, "dte_webhook_late_seconds"); late != 2 {
			t.Errorf("late for %v s", late)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"2", "3", "3", "3 4", "3 4"}; !slices.Equal(e.bodies, want) {
			t.Errorf("posted %q, want %q", e.bodies, want)
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if pause := e.at[i+2].Sub(e.at[i+1]); pause != want {
				t.Errorf("pause %d is %v, want %v", i, pause, want)
			}
		}
		if late := metrictest.Value(t, h, "dte_webhook_late_seconds"); late != 0 {
			t.Errorf("late for %v s, and nothing waits", late)
		}
		for result, want := range map[string]float64{"taken": 2, "refused": 2, "lost": 1} {
			if got := metrictest.Value(t, h, "dte_webhook_posts_total/"+result); got != want {
				t.Errorf("%s: %v, want %v", result, got, want)
			}
		}
		stop()
		w.result()                                                // 5, while it is down
		again := &erp{t: t, answers: []int{200}, stop: func() {}} // the program stops while its post is answered
		for range 2 {
			_, stop = w.start(again)
			synctest.Wait()
			stop()
		}
		if !slices.Equal(again.bodies, []string{"5"}) {
			t.Errorf("after two restarts %q", again.bodies)
		}
		if r, err := w.store.Fsck(t.Context()); err != nil || len(r.Problems) > 0 {
			t.Errorf("%v %v", r, err)
		}
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHook_CursorLost: a hook whose place the store has lost posts every result again; then its place counts.
func TestHook_CursorLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHookWorld(t)
		w.result() // 1, before the hook's first start
		e := &erp{t: t, answers: []int{200}}
		for _, w.err = range []error{nil, storage.ErrCursor} {
			_, stop := w.start(e)
			synctest.Wait()
			w.result() // 2, 3
			synctest.Wait()
			stop()
		}
		if want := []string{"2", "1 2", "3"}; !slices.Equal(e.bodies, want) {
			t.Errorf("posted %q, want %q", e.bodies, want)
		}
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHook_Late: a new hook begins behind all results, however many there are.
func TestHook_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHookWorld(t)
		for i := range 1001 {
			code := storage.Code{15: byte(i), 14: byte(i >> 8)}
			_, err := w.store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: code, State: 4})
			if err == nil {
				_, err = w.store.Advance(t.Context(), code, 4, storage.Change{To: 2, Announce: true})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		e := &erp{t: t, answers: []int{200}}
		_, stop := w.start(e)
		synctest.Wait()
		w.result() // 1
		synctest.Wait()
		stop()
		if !slices.Equal(e.bodies, []string{"1"}) {
			t.Errorf("posted %.100q", e.bodies)
		}
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}
