package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// cutting ends a connection after that many bytes in one direction.
type cutting struct {
	net.Conn
	reads, writes int // the rest; negative: no limit
}

func (c *cutting) Read(p []byte) (int, error)  { return c.limit(&c.reads, p, c.Conn.Read) }
func (c *cutting) Write(p []byte) (int, error) { return c.limit(&c.writes, p, c.Conn.Write) }

func (c *cutting) limit(left *int, p []byte, do func([]byte) (int, error)) (int, error) {
	if *left < 0 {
		return do(p)
	}
	n, err := 0, error(nil)
	if part := p[:min(len(p), *left)]; len(part) > 0 {
		n, err = do(part)
		*left -= n
	}
	if *left == 0 && err == nil && n < len(p) {
		_ = c.Close()
		err = errors.New("connection reset by peer")
	}
	return n, err
}

// The line is cut at every point of an upload, in both directions. A file that is reported as archived is complete; any
// other is complete or absent; and the next attempt finishes it.
func TestPut_CutAnywhere(t *testing.T) {
	s := start(t)
	healthy := s.archive(t, nil)
	data := document(6000)
	var mu sync.Mutex
	archived, failed, landed := 0, 0, 0
	attempt := func(reads, writes int) {
		a := s.archive(t, func(o *Options) {
			o.Transport = transport(t, func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := s.Dial(ctx, network, address)
				return &cutting{c, reads, writes}, err
			})
		})
		k := fmt.Sprintf("cut/r%d/w%d.pdf", reads, writes)
		_, err := a.Put(t.Context(), k, "application/pdf", data)
		held := s.Held(t, k)
		if held != nil && !bytes.Equal(held, data) || err == nil && held == nil || errors.Is(err, ErrConflict) ||
			errors.Is(err, ErrSetup) {
			t.Errorf("%s: %d bytes held, %v", k, len(held), err)
		}
		mu.Lock()
		switch {
		case err == nil:
			archived++
		case held != nil:
			landed++
		default:
			failed++
		}
		mu.Unlock()
		if _, err := healthy.Put(t.Context(), k, "application/pdf", data); err != nil || !bytes.Equal(s.Held(t, k),
			data) {
			t.Errorf("%s, again: %v", k, err)
		}
	}
	var all sync.WaitGroup
	room := make(chan struct{}, 16)
	for n := 0; n < 9000; n += 113 {
		all.Go(func() { room <- struct{}{}; attempt(-1, n); <-room })
	}
	for n := 0; n < 1500; n += 53 {
		all.Go(func() { room <- struct{}{}; attempt(n, -1); <-room })
	}
	all.Wait()
	t.Logf("%d archived, %d failed, %d landed and reported as failed", archived, failed, landed)
	if archived == 0 || failed < 50 || landed == 0 {
		t.Error("the cuts missed the upload")
	}
}

// The store's process is killed in the middle of an upload and comes back.
func TestPut_StoreKilled(t *testing.T) {
	s := start(t)
	data := document(4 << 20)
	var once sync.Once
	a := s.archive(t, func(o *Options) {
		o.Transport = transport(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := s.Dial(ctx, network, address)
			return &after{c, 1 << 20, func() { once.Do(s.Kill) }}, err
		})
	})
	if _, err := a.Put(t.Context(), key, "application/pdf", data); err == nil || kind(err) != "" {
		t.Errorf("killed: %v", err)
	}
	if _, err := a.Put(t.Context(), key, "application/pdf", data); err == nil || kind(err) != "" {
		t.Errorf("down: %v", err)
	}
	if held := s.Held(t, key); held != nil {
		t.Errorf("%d bytes held", len(held))
	}
	s.Run(t)
	if _, err := a.Put(t.Context(), key, "application/pdf", data); err != nil || !bytes.Equal(s.Held(t, key), data) {
		t.Errorf("back: %v", err)
	}
}

// after runs a function once that many bytes have been written.
type after struct {
	net.Conn
	left int
	do   func()
}

func (a *after) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	if a.left -= n; a.left <= 0 {
		a.do()
	}
	return n, err
}

// A store with a full disk keeps nothing, and its error permits another attempt.
func TestPut_Full(t *testing.T) {
	s := start(t)
	s.Kill()
	s.Limit = "64"
	s.Run(t)
	a := s.archive(t, nil)
	data := document(200_000)
	if _, err := a.Put(t.Context(), key, "application/pdf", data); err == nil || errors.Is(err, ErrSetup) ||
		errors.Is(err, ErrConflict) {
		t.Errorf("full: %v", err)
	}
	if held := s.Held(t, key); held != nil {
		t.Errorf("%d bytes held", len(held))
	}
	s.Kill()
	s.Limit = ""
	s.Run(t)
	if _, err := a.Put(t.Context(), key, "application/pdf", data); err != nil || !bytes.Equal(s.Held(t, key), data) {
		t.Errorf("again with room: %v", err)
	}
}
