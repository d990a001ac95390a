package link

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// conn is one connection of the pool: idle, or given to one request.
type conn struct {
	pool   *pool
	wire   *http.ClientConn
	since  time.Time // idle since
	retire time.Time // when it is replaced, if still idle
	gone   bool      // it is counted no more
}

// newConn counts a connection that was made, and watches it: the server may close it at any time.
func newConn(p *pool, made *http.ClientConn) *conn {
	c := &conn{pool: p, wire: made}
	p.mu.Lock()
	p.live++
	p.mu.Unlock()
	made.SetStateHook(func(*http.ClientConn) {
		if made.Err() != nil {
			p.forget(c)
		}
	})
	return c
}

// roundTrip sends a request. The connection is free again when the answer was read to its end.
func (c *conn) roundTrip(req *http.Request) (*http.Response, error) {
	c.pool.question()
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		c.close()
		return nil, err
	}
	c.pool.sign()
	if resp.Body == http.NoBody {
		c.release()
	} else {
		resp.Body = &body{ReadCloser: resp.Body, conn: c}
	}
	return resp, nil
}

// release gives the connection back, if it can bear another request.
func (c *conn) release() {
	if c.wire.Available() > 0 {
		c.pool.put(c)
	} else {
		c.close()
	}
}

func (c *conn) close() {
	_ = c.wire.Close()
	c.pool.forget(c)
}

// body is an answer's body. Read to its end it frees its connection, closed earlier it ends it.
type body struct {
	io.ReadCloser
	conn *conn
	once sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.conn.release)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.conn.release)
	return err
}
