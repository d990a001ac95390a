package outbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// HookOptions of NewHook. Every field without a default is required.
type HookOptions struct {
	URL      string
	Secret   []byte // key of the HMAC
	Store    *storage.Store
	Ambiente string // CAT-001
	// Next waits for results after a cursor and returns them as a body, with the next cursor; nil if ctx ends first.
	Next      func(ctx context.Context, after uint64) (body []byte, next uint64, err error)
	Transport http.RoundTripper // default http.DefaultTransport
	Now       func() time.Time
	Logger    *slog.Logger
}

// Hook posts late results to an address: in order, each at least once, signed with an HMAC. The store has the hook's
// position in the feed: after a restart, Hook continues after the last accepted post.
type Hook struct {
	o       HookOptions
	client  *http.Client
	key     storage.Idempotency // finds the record of the hook's position
	code    storage.Code        // of the record
	after   uint64              // cursor of the last accepted result
	failing atomic.Int64        // when posts began to fail, Unix nanoseconds; 0: posts succeed
	posts   *prometheus.CounterVec
	waiting prometheus.GaugeFunc
}

// A post ends after hookTimeout. A failed post is repeated after hookPause; the pause doubles up to hookLongest.
const (
	hookTimeout = 15 * time.Second
	hookPause   = time.Second
	hookLongest = 5 * time.Minute
)

// NewHook returns a hook; it starts nothing.
func NewHook(o HookOptions) *Hook {
	h := &Hook{o: o, key: storage.Idempotency{Key: sha256.Sum256([]byte("webhook/" + o.Ambiente))}}
	// A redirect is not followed: the results go only to the operator's address.
	h.client = &http.Client{Transport: o.Transport, Timeout: hookTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	h.posts = record.NewCounters("dte_webhook_posts_total",
		"Posts of late results, by result: taken, refused (an answer that is not 2xx), lost (no answer).", "result",
		"taken", "refused", "lost")
	h.waiting = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dte_webhook_late_seconds",
		Help: "How long posts of late results have failed; 0 while they succeed."}, h.late)
	return h
}

func (h *Hook) late() float64 {
	since := h.failing.Load()
	if since == 0 {
		return 0
	}
	return h.o.Now().Sub(time.Unix(0, since)).Seconds()
}

func (h *Hook) Collect(ch chan<- prometheus.Metric) { h.posts.Collect(ch); h.waiting.Collect(ch) }

// Run posts until ctx ends, and then returns nil.
func (h *Hook) Run(ctx context.Context) error {
	pause := hookPause
	for placed := false; ctx.Err() == nil; {
		var err error
		if !placed {
			err = h.findPlace(ctx)
			placed = err == nil
		}
		if err == nil {
			err = h.step(ctx)
		}
		if err == nil {
			pause = hookPause
			h.failing.Store(0)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if h.failing.CompareAndSwap(0, h.o.Now().UnixNano()) {
			h.o.Logger.Warn("the webhook does not take late results; they wait", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, hookLongest)
		}
	}
	return nil
}

func (h *Hook) step(ctx context.Context) error {
	body, next, err := h.o.Next(ctx, h.after)
	if errors.Is(err, storage.ErrCursor) {
		// The store has lost the result at the cursor. Posting every result again is better than losing some.
		h.o.Logger.Error("the store has lost the webhook's place: it begins anew", "cursor", h.after)
		h.after = 0
		return nil
	}
	if err != nil || body == nil {
		return err
	}
	if err := h.post(ctx, body); err != nil {
		return err
	}
	// If we crash here, the results are posted again: each is posted at least once.
	return h.keepPlace(ctx, next)
}

// post sends a body. The error is the reason why it was not accepted.
func (h *Hook) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	at := strconv.FormatInt(h.o.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "dtegate")
	req.Header.Set("X-Dte-Timestamp", at)
	req.Header.Set("X-Dte-Signature", "sha256="+Signature(h.o.Secret, at, body))
	resp, err := h.client.Do(req)
	if err != nil {
		h.posts.WithLabelValues("lost").Inc()
		return fmt.Errorf("posting: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // lets the connection be reused
	if resp.StatusCode/100 != 2 {
		h.posts.WithLabelValues("refused").Inc()
		return fmt.Errorf("posting: the answer is %s", resp.Status)
	}
	h.posts.WithLabelValues("taken").Inc()
	return nil
}

// Signature returns the HMAC-SHA256 of a post in hex: of its timestamp, a full stop, and its body.
func Signature(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

type place struct {
	Cursor uint64 `json:"cursor"`
}

// findPlace reads the stored cursor. A new hook skips all existing results: tills have polled them.
func (h *Hook) findPlace(ctx context.Context) error {
	code, _, err := h.o.Store.Lookup(h.key.Key)
	if err == nil {
		entry, err := h.o.Store.Get(code)
		if err != nil {
			return err
		}
		var p place
		if err := json.Unmarshal(entry.Head, &p); err != nil {
			return fmt.Errorf("reading the webhook's place: %w", err)
		}
		h.code, h.after = code, p.Cursor
		return nil
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	var last uint64
	for {
		list, err := h.o.Store.Changes(last, 500)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		last = list[len(list)-1].Sequence
	}
	made, err := dte.NewCode(rand.Reader)
	if err != nil {
		return err
	}
	head, err := json.Marshal(place{last})
	if err != nil {
		return err
	}
	_, err = h.o.Store.Append(ctx, storage.Keys{Series: h.o.Ambiente + "/webhook", Idempotency: &h.key},
		storage.Draft{Code: storage.Code(made), State: record.HookPlace, Head: head})
	if err == nil {
		h.code, h.after = storage.Code(made), last
	}
	return err
}

// keepPlace stores the cursor of the last accepted result, even if ctx has ended: otherwise the result is posted again.
func (h *Hook) keepPlace(ctx context.Context, next uint64) error {
	head, err := json.Marshal(place{next})
	if err == nil {
		_, err = record.Move(context.WithoutCancel(ctx), h.o.Store, h.code, record.HookPlace,
			storage.Change{To: record.HookPlace, Head: head})
	}
	if err == nil {
		h.after = next
	}
	return err
}
