package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
)

// TestShares measures shares alone: make bench-shares.
func TestShares(t *testing.T) {
	skip.Unless(t, *budgets, "make bench-shares")
	shares(t, rows(t))
}

// A quiet block and a block during an abuse take turns, this many times.
const (
	sharesRounds = 5
	sharesBlock  = 120 // sales
)

// shares compares the worst till with a quiet till, under a branch's default limits. The worst till has a good token,
// asks for as much as it can, and asks again at once, or ten milliseconds after it was told to wait: the cost of
// answering a flood of requests is outside of shares. The quiet till sells ten lines a few dozen times a second.
func shares(t *testing.T, row func(string, float64, float64, string)) {
	b := newBranch(t, everyRule...)
	b.reconfigure(", rate = 100000", "")
	b.start()
	defer b.stop()
	(&bench{branch: b}).outage(t)
	quiet := &quietTill{t: t, bench: &bench{branch: b}}
	lines := make([]string, 2000)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"codigo":"A-%04d","descripcion":"%s","cantidad":1,"precioUnitario":1.95}`, i,
			strings.Repeat("Artículo de la línea ", 18))
	}
	largest := `{"receptor":` + customer10 + `,"items":[` + strings.Join(lines, ",") + `],"condicionOperacion":1}`
	long := b.sold(strings.ReplaceAll(largest, strings.Repeat("Artículo de la línea ", 17), ""))
	quiet.block(2 * sharesBlock) // warm up, and fill a day to list
	for _, a := range []struct {
		name    string
		callers int
		abuse   func(*worstTill)
	}{
		{"lists of one document with all totals", 8, func(w *worstTill) {
			w.ask("GET", "/dte/documentos?limite=1",
				"")
		}},
		{"PDFs of 2,000 lines", 60, func(w *worstTill) { w.ask("GET", "/dte/pdf/"+long.Code, "") }},
		{"announced bodies that do not come", 64, func(w *worstTill) { w.stall() }},
		{"the largest sales", 4, func(w *worstTill) { w.ask("POST", "/dte/dte01", largest) }},
		{"connections without a token", 4, func(w *worstTill) { w.knock() }},
	} {
		var alone, beside []time.Duration
		for range sharesRounds {
			alone = append(alone, quiet.block(sharesBlock)...)
			stop := make(chan struct{})
			var callers sync.WaitGroup
			var tally statusTally
			for i := range a.callers {
				callers.Go(func() {
					w := &worstTill{api: b.api, stop: stop, tally: &tally, host: byte(1 + i)}
					defer w.close()
					for !w.over() {
						a.abuse(w)
					}
				})
			}
			pause(300 * time.Millisecond)
			beside = append(beside, quiet.block(sharesBlock)...)
			close(stop)
			callers.Wait()
			fmt.Printf("    %s: answers %v\n", a.name, tally.seen())
		}
		row("p99 of a quiet till beside "+a.name+" / alone", ratio(quantile(beside, .99), quantile(alone, .99)), 2, "x")
		fmt.Printf("    alone p50 %v, p99 %v; beside it p50 %v, p99 %v\n", quantile(alone, .5), quantile(alone, .99),
			quantile(beside, .5), quantile(beside, .99))
	}
}

// quietTill sells with four tokens in turn, one sale at a time.
type quietTill struct {
	t *testing.T
	*bench
	n int
}

func (q *quietTill) block(n int) (took []time.Duration) {
	for range n {
		q.n++
		took = append(took, timed(func() { q.sell(q.t, 1+q.n%4) }))
		pause(6 * time.Millisecond) // four tokens of 50 a second
	}
	return took
}

type statusTally struct {
	mu    sync.Mutex
	count map[int]int
}

func (s *statusTally) add(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = make(map[int]int)
	}
	s.count[status]++
}

func (s *statusTally) seen() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// worstTill is one connection of the till that asks for as much as it can.
type worstTill struct {
	api   string
	host  byte
	stop  chan struct{}
	tally *statusTally
	conn  net.Conn
	in    *bufio.Reader
	held  []net.Conn
}

func (w *worstTill) over() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

func (w *worstTill) close() {
	for _, c := range append(w.held, w.conn) {
		if c != nil {
			c.Close()
		}
	}
}

// ask sends a request and reads its answer; after any failure it tries again.
func (w *worstTill) ask(method, path, body string) {
	if w.conn == nil {
		conn, err := net.Dial("tcp", w.api)
		if err != nil {
			return
		}
		w.conn, w.in = conn, bufio.NewReader(conn)
	}
	_ = w.conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err := fmt.Fprintf(w.conn, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nx-api-token: "+
		"%s8\r\nContent-Length: %d\r\n\r\n%s", method, path, testToken, len(body), body)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(w.in, nil)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		w.tally.add(resp.StatusCode)
	}
	if err != nil || resp.Close {
		w.conn.Close()
		w.conn = nil
	}
	if err != nil || resp.StatusCode >= 400 {
		pause(10 * time.Millisecond)
	}
}

// stall announces the largest body and sends half of it.
func (w *worstTill) stall() {
	conn, err := net.Dial("tcp", w.api)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "POST /dte/dte01 HTTP/1.1\r\nHost: x\r\nx-api-token: %s8\r\nContent-Length: "+
		"1048576\r\n\r\n", testToken)
	_, _ = conn.Write(bytes.Repeat([]byte(" "), 512<<10))
	for end := time.Now().Add(5 * time.Second); !w.over() && time.Now().Before(end); {
		pause(20 * time.Millisecond)
	}
}

// knock opens a connection and sends nothing; the last thousand stay open.
func (w *worstTill) knock() {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, w.host, byte(1+len(w.held)%250))},
		Timeout: time.Second}
	if conn, err := d.Dial("tcp", w.api); err == nil {
		if w.held = append(w.held, conn); len(w.held) > 1000 {
			w.held[len(w.held)-1001].Close()
			w.held[len(w.held)-1001] = nil
		}
	}
	pause(2 * time.Millisecond)
}
