package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// ending tells when a connection is closed.
type ending struct {
	net.Conn
	at chan time.Time
}

func (e ending) Close() error {
	e.at <- time.Now()
	return e.Conn.Close()
}

// pipe is a listener of connections in memory.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipe) Close() error   { return nil }
func (p pipe) Addr() net.Addr { return &net.TCPAddr{} }

// A connection ends two minutes after its last answer, 15 s into a request that does not come, and when nobody has read
// an answer for 75 s, which is longer than a request takes.
func TestServer_Times(t *testing.T) {
	secret := []byte("secret of the test")
	options := Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: NewTokenTable(secret,
		[]Token{{ID: 1, Hash: keyed("may", secret)}}), Now: time.Now}
	// fasthttp's clock of the Date header never ends: not in the bubble
	if resp, err := http.Get(served(t, New(options).Serve)); err != nil {
		t.Fatal(err)
	} else {
		_ = resp.Body.Close()
	}
	const request = "GET /dte/information HTTP/1.1\r\nHost: x\r\nx-api-token: may\r\n\r\n"
	for name, c := range map[string]struct {
		sent    string
		answers int // that are read
		ends    time.Duration
	}{
		"idle":           {request, 1, 2 * time.Minute},
		"idle again":     {request + request, 2, 2 * time.Minute},
		"nothing":        {"", 0, 15 * time.Second},
		"half a request": {request[:40], 0, 15 * time.Second},
		"takes nothing":  {request, 0, 75 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipe(make(chan net.Conn, 1))
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- New(options).Serve(ctx, p) }()
				theirs, conn := net.Pipe()
				ended := make(chan time.Time, 8)
				p <- ending{theirs, ended}
				began := time.Now()
				go func() { _, _ = io.WriteString(conn, c.sent) }()
				in := bufio.NewReader(conn)
				for range c.answers {
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
						t.Fatalf("%d %v", resp.StatusCode, err)
					}
				}
				if c.sent != request { // else nobody reads the request
					go func() { _, _ = io.Copy(io.Discard, in) }()
				}
				if took := (<-ended).Sub(began); took < c.ends || took > c.ends+time.Second {
					t.Errorf("it ended after %v", took)
				}
				_ = conn.Close()
				stop()
				close(p)
				if err := <-done; err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute) // fasthttp cleans up after itself
			})
		})
	}
}
