package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/sign"
)

// raw sends bytes unchanged and returns the status of each answer and all text, until the appliance closes the
// connection or pauses.
func raw(t *testing.T, address, request string) (statuses []int, text string) {
	t.Helper()
	defer func() { seek("raw answer in "+t.Name(), []byte(text)) }()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, request) }() // it may be cut off
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(c, &all))
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses, all.String()
		}
		statuses = append(statuses, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		if err != nil || resp.Close {
			return statuses, all.String()
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
	}
}

// TestAttack_Requests: requests that pretend to be something else. None of them gets another caller's data, issues
// anything, or reaches the operators' routes from the tills' listener.
func TestAttack_Requests(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	defer b.stop()
	good := "x-api-token: " + testToken + "1\r\n"
	head := "Host: x\r\nConnection: close\r\n"
	body := func(method, headers, body string) string {
		return method + " /dte/dte01 HTTP/1.1\r\n" + head + "Content-Type: application/json\r\n" + headers + "\r\n" +
			body
	}
	length := "Content-Length: " + strconv.Itoa(len(sale01)) + "\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(sale01), sale01)
	smuggled := "GET /dte/information HTTP/1.1\r\nHost: x\r\n" + good + "\r\n"
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 64<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, request string
		want          []int // one of these; 0: closed without an answer
	}{
		{"no token", body("POST", length, sale01), []int{401}},
		{"wrong token", body("POST", "x-api-token: wrong\r\n"+length, sale01), []int{401}},
		{"empty token", body("POST", "x-api-token: \r\n"+length, sale01), []int{401}},
		{"basic authentication", body("POST", "Authorization: Basic "+testToken+"1\r\n"+length, sale01), []int{401}},
		{"the admin token", body("POST", "Authorization: Bearer "+testAdmin+"\r\n"+length, sale01), []int{401}},
		{"two different tokens", body("POST", good+"x-api-token: wrong\r\nAuthorization: Bearer wrong\r\n"+length,
			sale01), []int{400, 401}},
		{"admin route", "GET /admin/rules HTTP/1.1\r\n" + head + good + "\r\n", []int{404}},
		{"encoded dots", "GET /dte/%2e%2e/metrics HTTP/1.1\r\n" + head + good + "\r\n", []int{404}},
		{"doubly encoded dots", "GET /dte/%252e%252e/metrics HTTP/1.1\r\n" + head + good + "\r\n", []int{404}},
		{"encoded slash", "GET /dte/documento/..%2f..%2fmetrics HTTP/1.1\r\n" + head + good + "\r\n", []int{400, 404}},
		{"backslash", "GET /dte\\..\\metrics HTTP/1.1\r\n" + head + good + "\r\n", []int{400, 404}},
		{"double slash without a token", "GET //dte//information HTTP/1.1\r\n" + head + "\r\n", []int{401, 404}},
		{"files", "GET /tienda/DTES/..%2f..%2f..%2fsigning.jwe HTTP/1.1\r\n" + head + good + "\r\n", []int{400, 404}},
		{"absolute URI without a token", "GET http://127.0.0.1/dte/information HTTP/1.1\r\n" + head + "\r\n",
			[]int{401}},
		{"absolute URI of the operators", "GET http://" + b.ops + "/metrics HTTP/1.1\r\n" + head + good + "\r\n",
			[]int{404}},
		{"CONNECT", "CONNECT " + b.ops + " HTTP/1.1\r\n" + head + good + "\r\n", []int{400, 404, 405}},
		{"NUL in the path", "GET /dte/information\x00 HTTP/1.1\r\n" + head + "\r\n", []int{400, 401, 404}},
		{"NUL in a header", "GET /dte/information HTTP/1.1\r\n" + head + "x-api-token: " + testToken + "1\x00\r\n\r\n",
			[]int{400, 401}},
		{"space before the colon", "GET /dte/information HTTP/1.1\r\n" + head + "x-api-token : " + testToken +
			"1\r\n\r\n", []int{400, 401}},
		{"huge header", "GET /dte/information HTTP/1.1\r\n" + head + "x-api-token: " + strings.Repeat("x", 1<<20) +
			"\r\n\r\n", []int{431}},
		{"huge path", "GET /" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\n" + head + good + "\r\n", []int{431}},
		{"many headers", "GET /dte/information HTTP/1.1\r\n" + head + strings.Repeat("a: b\r\n", 100_000) + "\r\n",
			[]int{431}},
		{"two lengths", body("POST", good+length+"Content-Length: 5\r\n", sale01), []int{400}},
		{"a negative length", body("POST", good+"Content-Length: -5\r\n", sale01), []int{400}},
		{"a length beyond all numbers", body("POST", good+"Content-Length: 99999999999999999999\r\n", sale01),
			[]int{400, 413}},
		{"length and chunks", body("POST", good+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunk),
			[]int{400}},
		{"chunks and length", body("POST", good+"Transfer-Encoding: chunked\r\nContent-Length: "+
			strconv.Itoa(len(chunk)+len(smuggled))+"\r\n", chunk+smuggled), []int{400}},
		{"no chunks and length", body("POST", good+length+"Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+smuggled),
			[]int{400}},
		{"chunks by another name", body("POST", good+"Transfer-Encoding: xchunked\r\n"+length, sale01),
			[]int{400, 501}},
		{"chunks twice", body("POST", good+"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunk),
			[]int{400}},
		{"broken chunks", body("POST", good+"Transfer-Encoding: chunked\r\n", "zz\r\n"+sale01), []int{400}},
		{"too large", body("POST", good+"Content-Length: 2097152\r\n", strings.Repeat(" ", 2<<20)), []int{413}},
		{"too large, in chunks", body("POST", good+"Transfer-Encoding: chunked\r\n",
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 2<<20, strings.Repeat(" ", 2<<20))), []int{413}},
		{"too large, after being asked", body("POST", good+"Expect: 100-continue\r\nContent-Length: 2097152\r\n",
			strings.Repeat(" ", 2<<20)), []int{100, 413, 417}},
		{"large without a token", body("POST", "Content-Length: 1048576\r\n", strings.Repeat(" ", 1<<20)), []int{401}},
		{"a gzip bomb", body("POST", good+"Content-Encoding: gzip\r\nContent-Length: "+strconv.Itoa(bomb.Len())+"\r\n",
			bomb.String()), []int{415}},
		{"a deflated body", body("POST", good+"Content-Encoding: deflate\r\n"+length, sale01), []int{415}},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{0, 400, 404, 405}},
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", []int{400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			statuses, text := raw(t, b.api, c.request)
			if len(statuses) == 0 {
				statuses = []int{0}
			}
			for _, s := range statuses {
				if !slices.Contains(c.want, s) {
					t.Fatalf("%v, want %v: %.300s", statuses, c.want, text)
				}
			}
			for _, secret := range []string{"codigoGeneracion\":\"", "dte_http", "emisor", "ciphertext"} {
				if strings.Contains(text, secret) {
					t.Errorf("the answer holds %q: %.300s", secret, text)
				}
			}
		})
	}
	// The operators' listener protects itself: a large body without the admin token is not read.
	for _, path := range []string{"/admin/rules", "/admin/contingency", "/admin/backup", "/status", "/metrics"} {
		statuses, text := raw(t, b.ops, "POST "+path+" HTTP/1.1\r\n"+head+"Authorization: Bearer "+testToken+
			"1\r\nContent-Length: 16777216\r\n\r\n"+strings.Repeat("x", 8<<20))
		if len(statuses) != 1 || statuses[0] != http.StatusUnauthorized {
			t.Errorf("8 MiB for %s without the admin token: %v %.200s", path, statuses, text)
		}
	}
	for i := 0; b.asToken("wrong "+strconv.Itoa(i)) != http.StatusTooManyRequests; i++ {
		if i > 500 {
			t.Fatal("wrong tokens are taken without end")
		}
	}
	if b.asToken(testToken+"1") != http.StatusOK {
		t.Error("wrong tokens shut out a good one")
	}
	if r := b.sold(sale01); !strings.HasSuffix(r.ControlNumber, "-000000000000001") {
		t.Errorf("an attack spent a number: %s", r.ControlNumber)
	}
	for _, reason := range []string{"size", "wrong_tokens"} {
		if b.metric(`dte_http_refused_total{listener="api",reason="`+reason+`"}`) == 0 {
			t.Errorf("what is refused for %s is not counted", reason)
		}
	}
}

// A token that asks for too much must wait, others need not.
func TestAttack_Rate(t *testing.T) {
	b := newBranch(t)
	b.reconfigure("rate = 100000", "rate = 5")
	b.start()
	defer b.stop()
	for i := range 20 {
		if status := b.asToken(testToken + "1"); status != http.StatusOK {
			t.Errorf("request %d of the burst: %d", i+1, status)
		}
	}
	// The contract wants Retry-After.
	soon(t, "a hasty token is told to wait", func() bool {
		return b.asToken(testToken+"1") == http.StatusTooManyRequests
	})
	if b.asToken(testToken+"2") != http.StatusOK {
		t.Error("one till's haste stops another")
	}
}

// TestAttack_Connections: ten thousand connections from a whole network (500 with -short): slow headers, slow bodies
// and half-open connections. A till continues to sell meanwhile.
func TestAttack_Connections(t *testing.T) {
	most := 10_000
	if testing.Short() {
		most = 500
	}
	b := newBranch(t)
	b.measured = true
	b.start()
	defer b.stop()
	sell := func(what string) {
		t.Helper()
		if took := timed(func() { b.sold(sale01) }); took > 15*time.Second {
			t.Fatalf("%s: sold after %v", what, took)
		}
	}
	sell("before")
	var mu sync.Mutex
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	var next sync.WaitGroup
	work := make(chan int)
	for range 16 {
		next.Go(func() {
			for i := range work {
				// 200 hosts, each beyond the limit of one host.
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%200))},
					Timeout: 10 * time.Second}
				c, err := d.Dial("tcp", b.api)
				if err != nil {
					continue // the test itself may run out of files
				}
				// half-open, slow headers
				_, _ = io.WriteString(c, []string{"", "GET /dte/information HTTP/1.1\r\nHost: x\r\nx-api-to",
					// a slow body
					"POST /dte/dte01 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{",
					// and of a till
					"POST /dte/dte01 HTTP/1.1\r\nHost: x\r\nx-api-token: " + testToken +
						"8\r\nContent-Length: 1000000\r\n\r\n{"}[i%4])
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
			}
		})
	}
	for i := range most {
		work <- i
		if i%(most/5) == most/10 {
			sell(fmt.Sprintf("with %d connections", i))
			connections.CloseIdleConnections() // the next till is a newcomer
		}
	}
	close(work)
	next.Wait()
	sell("with all of them")
	strangers, resident := b.metric(`dte_http_refused_total{listener="api",reason="stranger"}`), b.resident()>>20
	t.Logf("%d connections made, %v strangers made room; %d MiB", len(open), strangers, resident)
	if most == 10_000 && strangers == 0 {
		t.Error("no stranger made room")
	}
	if resident > 768 {
		t.Errorf("%d MiB: systemd ends it at 1024", resident)
	}
}

// TestAttack_Slow: a client that sends nothing, stops in the middle or sends a byte now and then is cut off within the
// 15 s that a request may take. A till continues to sell meanwhile.
func TestAttack_Slow(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	defer b.stop()
	body := "POST /dte/dte01 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n"
	token := "x-api-token: " + testToken + "8\r\n"
	var cut sync.WaitGroup
	defer cut.Wait()
	for name, c := range map[string]struct{ begin, trickle, want string }{
		"nothing":               {"", "", "408"},
		"half a header":         {"GET /dte/information HTTP/1.1\r\nHost: x\r\nx-api-to", "", "408"},
		"a slow header":         {"GET /dte/information HTTP/1.1\r\nHost: x\r\n", "a: b\r\n", "408"},
		"half a body of nobody": {body + "\r\n{", "", "401"},
		"half a body of a till": {body + token + "\r\n{", "", "408"},
		"a slow body of a till": {body + token + "\r\n{", " ", "408"},
		"slow pieces of a till": {strings.Replace(body, "Content-Length: 1000000", "Transfer-Encoding: chunked",
			1) + token + "\r\n", "1\r\n \r\n", "408"},
		"nothing after an admission": {body + token + "Expect: 100-continue\r\n\r\n", "", "100"},
	} {
		for range 4 {
			cut.Go(func() {
				began := time.Now()
				conn, err := net.Dial("tcp", b.api)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, c.begin)
				done := make(chan struct{})
				defer close(done)
				if c.trickle != "" {
					go func() {
						for err := error(nil); err == nil; _, err = io.WriteString(conn, c.trickle) {
							select {
							case <-done:
								return
							case <-time.After(300 * time.Millisecond):
							}
						}
					}()
				}
				_ = conn.SetReadDeadline(began.Add(25 * time.Second))
				said, err := io.ReadAll(conn)
				_, status, _ := strings.Cut(string(said), "HTTP/1.1 ")
				if took := time.Since(began); os.IsTimeout(err) || took > 20*time.Second || !strings.HasPrefix(status,
					c.want) {
					t.Errorf("%s: %v after %v: %.200s", name, err, took, said)
				}
			})
		}
	}
	var slow atomic.Bool
	go func() { cut.Wait(); slow.Store(true) }()
	for !slow.Load() {
		if took := timed(func() { b.sold(sale01) }); took > 5*time.Second {
			t.Fatalf("sold after %v", took)
		}
		pause(50 * time.Millisecond)
	}
	if n := b.metric(`dte_http_refused_total{listener="api",reason="slow"}`); n != 4*7 { // all but the silent one's
		t.Errorf("%v are counted", n)
	}
}

// TestAttack_Secrets: no secret ever gets out: not in the log, an answer, a metric or the trail. A thief of the folder
// without the passphrase has neither the key nor a token.
func TestAttack_Secrets(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	var out strings.Builder
	note := func(status int, body []byte, err ...error) { fmt.Fprintln(&out, status, string(body), err) }
	note(b.post("/dte/dte01", 1, "k", sale01))
	note(b.post("/dte/dte01", 1, "k", strings.Replace(sale01, "6.95", "1", 1)))
	note(b.post("/dte/dte01", 9, "", sale01))
	note(b.post("/dte/dte99", 1, "", sale01))
	note(b.post("/dte/dte01", 1, "", "{"))
	note(b.get("/dte/information", 1))
	made := b.tokenAct("POST", "/admin/tokens", `{"name":"x","point_of_sale":1,"permissions":["ANULACION"]}`, 201)
	for _, path := range []string{"/status", "/admin/tokens", "/admin/audit", "/admin/rules"} {
		note(b.admin("GET", path, nil))
	}
	note(b.admin("POST", "/admin/tokens", []byte(`{"name":"`+made.Token)))
	note(b.getOps("/metrics"))
	for _, request := range []string{"GET /%zz HTTP/1.1\r\nHost: x\r\nx-api-token: " + testToken +
		"1\r\nbad header\r\n\r\n",
		"POST /dte/dte01 HTTP/1.1\r\nHost: x\r\nx-api-token: " + testToken + "1\r\nContent-Length: x\r\n\r\n"} {
		_, text := raw(t, b.api, request)
		out.WriteString(text)
		_, text = raw(t, b.ops, strings.ReplaceAll(request, "x-api-token: "+testToken+"1", "Authorization: Bearer "+
			testAdmin))
		out.WriteString(text)
	}
	file, err := config.LoadTokens(filepath.Join(b.dir, "tokens.toml"))
	if err != nil {
		t.Fatal(err)
	}
	b.tokenAct("DELETE", fmt.Sprintf("/admin/tokens/%d", made.ID), "", 200)
	b.stop()
	// Secrets that all branches share are looked for in every test.
	all := out.String() + b.log.String()
	if strings.Contains(all, made.Token) {
		t.Error("a token that was made came out")
	}
	for _, k := range file.Tokens {
		if strings.Contains(all, k.Hash) {
			t.Errorf("the hash of token %d came out", k.ID)
		}
	}
	stolen(t, b, made.Token)
}

// stolen looks at all files in the branch's folder, except those that are not on the disk of a real box: the passphrase
// and MH's password, which systemd holds.
func stolen(t *testing.T, b *branch, made string) {
	t.Helper()
	sealed, err := os.ReadFile(filepath.Join(b.dir, "signing.jwe"))
	if err != nil {
		t.Fatal(err)
	}
	for _, guess := range []string{"", "passphrase", testAdmin, testToken + "1"} {
		if _, err := sign.Open(sealed, []byte(guess)); err == nil {
			t.Fatalf("the key opens with %q", guess)
		}
	}
	err = filepath.WalkDir(b.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "signing.passphrase" || e.Name() == "authority.password" ||
			e.Name() == "admin.token" {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{testPassphrase, testToken + "1", made, "secreto-mh.2026", "PRIVATE KEY",
			testAdmin} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds %q", path, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	b.fsck(1, 1)
}
