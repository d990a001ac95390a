package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// secrets are what no answer, metric or log of any test of this package may hold.
var secrets = map[string]string{"a till's token": testToken, "the admin token": testAdmin, "the passphrase": testPassphrase, "MH's password": "secreto-mh.2026",
	"a private key": "PRIVATE KEY", "the sealed key": "eyJhbGciOiJQQkVTMi", "the secret of the tokens": strings.Repeat("09", 32)}

// leaks are the secrets that came out, and where.
var leaks struct {
	sync.Mutex
	found []string
}

func seek(where string, text []byte) {
	for name, secret := range secrets {
		if bytes.Contains(text, []byte(secret)) {
			leaks.Lock()
			leaks.found = append(leaks.found, fmt.Sprintf("%s: %s", where, name))
			leaks.Unlock()
		}
	}
}

// watched looks for secrets in what comes back.
type watched struct{ http.RoundTripper }

func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(req)
	if err == nil {
		where := req.Method + " " + req.URL.Path
		seek(where, fmt.Append(nil, resp.Header))
		resp.Body = &watchedBody{ReadCloser: resp.Body, where: where}
	}
	return resp, err
}

// watchedBody looks at each piece together with the end of the one before.
type watchedBody struct {
	io.ReadCloser
	where string
	tail  []byte
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.tail = append(b.tail, p[:n]...)
	seek(b.where, b.tail)
	b.tail = append(b.tail[:0], b.tail[max(0, len(b.tail)-64):]...)
	return n, err
}
