package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// till sends one sale again and again over one kept connection. It does nothing else: it runs on the measured cores,
// where net/http's client would take a fifth of a document's time.
type till struct {
	conn net.Conn
	in   *bufio.Reader
	sale []byte
}

func (b *bench) newTill(point int) (*till, error) {
	conn, err := net.Dial("tcp", b.api)
	if err != nil {
		return nil, err
	}
	return &till{conn, bufio.NewReaderSize(conn, 32<<10), fmt.Appendf(nil,
		"POST /dte/dte01 HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nx-api-token: "+
			"%s%d\r\nContent-Length: %d\r\n\r\n%s",
		b.api, testToken, point, len(sale10), sale10)}, nil
}

// ring returns the status, and the body if it is not a record.
func (t *till) ring() (int, []byte, error) {
	if _, err := t.conn.Write(t.sale); err != nil {
		return 0, nil, err
	}
	status, length := 0, 0
	for {
		line, err := t.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		if len(line) == 2 {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 ")); ok {
			status, err = strconv.Atoi(string(text[:3]))
		} else if name, text, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			length, err = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if status == http.StatusCreated {
		_, err := t.in.Discard(length)
		return status, nil, err
	}
	body := make([]byte, length)
	_, err := io.ReadFull(t.in, body)
	return status, body, err
}

func (b *bench) sell(t *testing.T, point int) {
	at, ok := b.till[point].Get().(*till)
	var err error
	if !ok {
		at, err = b.newTill(point)
	}
	var status int
	var body []byte
	if err == nil {
		status, body, err = at.ring()
	}
	if err != nil || status != http.StatusCreated {
		t.Errorf("%d %v %s", status, err, body)
		return
	}
	b.till[point].Put(at)
}

// alone: one request in flight.
func (b *bench) alone(t *testing.T) {
	const n = 1500
	var requests, floor []time.Duration
	for i := range n {
		floor = append(floor, timed(b.sign)+timed(b.sync))
		requests = append(requests, timed(func() { b.sell(t, i%8+1) }))
	}
	middle, slow := ratio(quantile(requests, .5), quantile(floor, .5)), ratio(quantile(requests, .99), quantile(floor,
		.5))
	b.row("p50, 1 in flight / one bare signature and one fsync of 9 KB", middle, 1.4, "x")
	asked("p50, 1 in flight / one bare signature and one fsync of 9 KB", middle, 1.15, "x")
	b.row("p99, 1 in flight / one bare signature and one fsync of 9 KB (its p50)", slow, 2.3, "x")
	fmt.Printf("    p50 %v, p99 %v; floor p50 %v, p99 %v\n", quantile(requests, .5), quantile(requests, .99),
		quantile(floor, .5), quantile(floor, .99))
}
