package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

const key = "ferreteria/DTES/test/2026/11/21/DTE01/pdf/9F2C3B1A-0000-4000-8000-000000000001.pdf"

// document is the bytes of an object.
func document(size int) []byte { return bytes.Repeat([]byte("%PDF-1.7"), (size+7)/8)[:size] }

func TestPut(t *testing.T) {
	s := start(t)
	a := s.archive(t, nil)
	data := document(80_000)
	for range 2 { // a repetition is no error
		if _, err := a.Put(t.Context(), key, "application/pdf", data); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(s.Held(t, key), data) {
		t.Error("other bytes")
	}
	other := bytes.Clone(data)
	other[7] ^= 1
	for _, d := range [][]byte{other, data[1:]} {
		if _, err := a.Put(t.Context(), key, "application/pdf", d); !errors.Is(err, ErrConflict) {
			t.Error(err)
		}
	}
	if !bytes.Equal(s.Held(t, key), data) {
		t.Error("replaced")
	}
	for _, k := range []string{"", "/x", "x/", "a//b", "../x", "a/./b", "a b", "ñ", "a?b", "a\nb", strings.Repeat("x",
		501)} {
		if _, err := a.Put(t.Context(), k, "application/pdf", data); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", k, err)
		}
	}
	if _, err := a.Put(t.Context(), "empty", "application/pdf", nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// A file that somebody else put there without a usable checksum is compared by its bytes.
func TestPut_Foreign(t *testing.T) {
	s := start(t)
	a := s.archive(t, nil)
	data := document(3000)
	for k, held := range map[string][]byte{"same": data, "other": bytes.Repeat([]byte("x"), len(data))} {
		if _, err := a.client.PutObject(t.Context(), bucket, k, bytes.NewReader(held), int64(len(held)), "", "",
			minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(held)
		if o, err := a.Stat(t.Context(), k); err != nil || o.Sum != base64.StdEncoding.EncodeToString(sum[:]) {
			t.Fatalf("%+v %v", o, err)
		}
		if _, err := a.Put(t.Context(), k, "application/pdf", data); errors.Is(err, ErrConflict) != (k == "other") ||
			(err == nil) != (k == "same") {
			t.Errorf("%s: %v", k, err)
		}
	}
}

// If many put different bytes under one key at once, one succeeds, and its bytes are there.
func TestPut_AtOnce(t *testing.T) {
	s := start(t)
	a := s.archive(t, nil)
	var all sync.WaitGroup
	won := make(chan byte, 16)
	for n := range byte(16) {
		all.Go(func() {
			_, err := a.Put(t.Context(), key, "application/pdf", bytes.Repeat([]byte{n}, 5000))
			for errors.Is(err, ErrNotFound) { // for a moment this server refuses the key before it shows the object
				_, err = a.Put(t.Context(), key, "application/pdf", bytes.Repeat([]byte{n}, 5000))
			}
			switch {
			case err == nil:
				won <- n
			case !errors.Is(err, ErrConflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := <-won; len(won) != 0 || !bytes.Equal(s.Held(t, key), bytes.Repeat([]byte{n}, 5000)) {
		t.Errorf("%d more won", len(won))
	}
}

// A store that confirms and keeps nothing, or something else, is not believed.
func TestPut_Lie(t *testing.T) {
	s := start(t)
	for name, want := range map[string]string{"nothing": "not found", "half": "conflict"} {
		real := transport(t, s.Dial)
		a := s.archive(t, func(o *Options) {
			o.Transport = lying(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPut {
					return real.RoundTrip(r)
				}
				if name == "half" {
					if _, err := s.archive(t, nil).Put(r.Context(), key+name, "application/pdf",
						document(50)); err != nil {
						return nil, err
					}
				}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			})
		})
		if _, err := a.Put(t.Context(), key+name, "application/pdf", document(100)); kind(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type lying func(*http.Request) (*http.Response, error)

func (l lying) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }

// A store that is slower than the patience, or silent.
func TestPut_Silence(t *testing.T) {
	there := make(chan net.Conn, 1)
	a, err := New(Options{Endpoint: "http://s3.example", Bucket: bucket, AccessKey: access, Secret: secret,
		PathStyle: true,
		Timeout:   30 * time.Millisecond, Transport: transport(t, func(context.Context, string, string) (net.Conn,
			error) {
			here, c := net.Pipe()
			there <- c
			return here, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(t.Context(), key, "application/pdf", document(100)); !errors.Is(err, context.DeadlineExceeded) ||
		kind(err) != "" {
		t.Error(err)
	}
	_ = (<-there).Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Put(ctx, key, "application/pdf", document(100)); !errors.Is(err, context.Canceled) ||
		kind(err) != "" {
		t.Error(err)
	}
}

// Errors that a person must correct are distinguished from temporary ones.
func TestPut_Setup(t *testing.T) {
	s := start(t)
	for name, change := range map[string]func(*Options){
		"unknown access key": func(o *Options) { o.AccessKey = "AKIDNOBODY" },
		"wrong secret":       func(o *Options) { o.Secret = "otra" },
		"no such bucket":     func(o *Options) { o.Bucket = "ninguno" },
		"wrong region":       func(o *Options) { o.Region = "eu-central-1" },
	} {
		a := s.archive(t, change)
		_, err := a.Put(t.Context(), key, "application/pdf", document(100))
		if kind(err) != "setup" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
		for _, err := range a.List(t.Context(), "") {
			if kind(err) != "setup" {
				t.Errorf("%s: listing: %v", name, err)
			}
		}
	}
	if s.Held(t, key) != nil {
		t.Error("something landed")
	}
}

// A store with the wrong identity, or without TLS, is an error of setup; its own transport is used.
func TestPut_Certificate(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the store was asked") })
	secure, clear := httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	defer secure.Close()
	defer clear.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	for _, endpoint := range []string{secure.URL, "https" + strings.TrimPrefix(clear.URL, "http")} {
		a, err := New(Options{Endpoint: endpoint, Bucket: bucket, AccessKey: access, Secret: secret, PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Put(t.Context(), key, "application/pdf", document(100)); kind(err) != "setup" {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// One Put is one attempt.
func TestPut_OneAttempt(t *testing.T) {
	asked := 0
	a, err := New(Options{Endpoint: "http://s3.example", Bucket: bucket, AccessKey: access, Secret: secret,
		PathStyle: true,
		Transport: lying(func(r *http.Request) (*http.Response, error) {
			asked++
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(t.Context(), key, "application/pdf", document(100)); err == nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// kind names the sentinel of an error; empty: it concerns only this attempt.
func kind(err error) string {
	for name, kind := range map[string]error{"conflict": ErrConflict, "setup": ErrSetup, "full": ErrFull,
		"not found": ErrNotFound, "invalid": ErrInvalid} {
		if errors.Is(err, kind) {
			return name
		}
	}
	return ""
}

// Every possible answer of a store has its kind.
func TestPut_Answers(t *testing.T) {
	for answer, want := range map[string]string{
		"500 InternalError": "", "502": "", "503 SlowDown": "", "503": "", "504": "", "429 TooManyRequests": "",
		"408":                            "",
		"409 ConditionalRequestConflict": "", "409 OperationAborted": "", "400 RequestTimeout": "", "400 BadDigest": "",
		"400 IncompleteBody": "",
		"507":                "full", "507 XMinioStorageFull": "full", "403 QuotaExceeded": "full",
		"403 AccessDenied": "setup", "403": "setup", "401": "setup", "403 SignatureDoesNotMatch": "setup",
		"403 InvalidAccessKeyId":   "setup",
		"403 RequestTimeTooSkewed": "setup", "404 NoSuchBucket": "setup", "301 PermanentRedirect": "setup",
		"307":                              "setup",
		"400 AuthorizationHeaderMalformed": "setup", "501 NotImplemented": "setup", "405 MethodNotAllowed": "setup",
		"413 EntityTooLarge": "setup",
	} {
		status, code, _ := strings.Cut(answer, " ")
		body := ""
		if code != "" {
			body = "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>no\nahora</Message></Error>"
		}
		a := answering(t, fmt.Sprintf("HTTP/1.1 %s X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status,
			len(body), body))
		_, err := a.Put(t.Context(), key, "application/pdf", document(100))
		if err == nil || kind(err) != want || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for name, answer := range map[string]string{"garbage": "\x16\x03\x01", "nothing": "",
		"half": "HTTP/1.1 200 OK\r\nConte"} {
		if _, err := answering(t, answer).Put(t.Context(), key, "application/pdf", document(100)); err == nil ||
			kind(err) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// answering returns an archive whose store gives one answer to every request.
func answering(t *testing.T, answer string) *Archive {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			r, err := http.ReadRequest(bufio.NewReader(there))
			if err != nil {
				return
			}
			_, _ = r.Body.Read(make([]byte, 1000))
			_, _ = there.Write([]byte(answer))
		}()
		return here, nil
	}
	a, err := New(Options{Endpoint: "http://s3.example", Bucket: bucket, AccessKey: access, Secret: secret,
		PathStyle: true, Transport: transport(t, dial)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
