package authority

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// maxAnswer is the largest answer that the client reads, in bytes.
const maxAnswer = 1 << 20

// ask posts a body and reads MH's answer about the document code.
func (c *Client) ask(ctx context.Context, path string, body any, code string) Outcome {
	status, answer, sent, err := c.exchange(ctx, http.MethodPost, path, body)
	if err != nil {
		return Outcome{Sent: sent, Err: err}
	}
	return c.decide(status, answer, code)
}

// exchange sends one request with a token, and renews a refused token once: MH did not receive the request.
func (c *Client) exchange(ctx context.Context, method, path string, body any) (status int, answer []byte, sent bool,
	err error) {
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return 0, nil, false, fmt.Errorf("encoding request: %w", err)
		}
	}
	for try := 0; ; try++ {
		token, err := c.authorize(ctx)
		if err != nil {
			return 0, nil, false, fmt.Errorf("logging in: %w", err)
		}
		status, answer, sent, err := c.request(ctx, method, path, "application/json", token, payload)
		if err != nil {
			return 0, nil, sent, err
		}
		if status == http.StatusUnauthorized {
			c.forget(token)
			if try == 0 {
				continue
			}
			return 0, nil, false, errors.New("MH refuses a token that it has just given")
		}
		return status, answer, true, nil
	}
}

// request sends one request. sent is false only if no byte of the request was written.
func (c *Client) request(ctx context.Context, method, path, contentType, token string, payload []byte) (status int,
	answer []byte, sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.AnswerTimeout)
	defer cancel()
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{
		WroteHeaders: func() { wrote.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(true) },
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method,
		strings.TrimSuffix(c.options.BaseURL, "/")+path, bytes.NewReader(payload))
	if err != nil {
		return 0, nil, false, fmt.Errorf("making request: %w", err)
	}
	// Without GetBody the transport cannot send the body a second time by itself, on another connection.
	req.GetBody = nil
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", c.options.UserAgent)
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, wrote.Load(), fmt.Errorf("asking MH: %w", err)
	}
	defer resp.Body.Close()
	if said, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.mu.Lock()
		c.said, c.heard = said, time.Now()
		c.mu.Unlock()
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(answer) > maxAnswer {
		return 0, nil, true, fmt.Errorf("reading MH's answer: %w", errors.Join(err, ErrAnswer))
	}
	return resp.StatusCode, answer, true, nil
}

// sello is the form of every seal seen so far: a year, a UUID without hyphens, four characters.
var sello = regexp.MustCompile(`^20\d\d[0-9A-F]{32}[A-Z0-9]{4}$`)

// decide reads an answer. An answer that is not MH's, or is about another document, leaves the outcome unknown.
func (c *Client) decide(status int, answer []byte, code string) Outcome {
	undecided := func(format string, args ...any) Outcome { return undecided(status, fmt.Sprintf(format, args...)) }
	// A 404 is MH's answer if its body is empty or JSON; the page of a proxy is not.
	if status == http.StatusNotFound && len(bytes.TrimSpace(answer)) == 0 {
		return Outcome{Kind: NotFound}
	}
	a, err := readAnswer(answer)
	if err != nil {
		return undecided("%.60q", answer)
	}
	r := a.response()
	if status == http.StatusNotFound && r.CodigoGeneracion == "" {
		return Outcome{Kind: NotFound}
	}
	if r.CodigoGeneracion != code {
		return undecided("it is about %.60q", r.CodigoGeneracion)
	}
	switch {
	case status == http.StatusOK && r.Estado == "PROCESADO":
		if !sello.MatchString(r.SelloRecibido) {
			return undecided("the seal %.60q has not MH's form", r.SelloRecibido)
		}
		return c.accepted(r.SelloRecibido, r)
	case (status == http.StatusOK || status == http.StatusBadRequest || status == http.StatusNotFound) &&
		r.Estado == "RECHAZADO" && r.SelloRecibido == "":
		return Outcome{Kind: Rejected, Response: r}
	}
	return undecided("estado %.60q", r.Estado)
}

// undecided returns the outcome of an answer that is not MH's.
func undecided(status int, why string) Outcome {
	return Outcome{Sent: true, Err: fmt.Errorf("%w: HTTP %d: %s", ErrAnswer, status, why)}
}

// accepted returns the outcome of an answer with a seal. In production a simulated seal is an error.
func (c *Client) accepted(seal string, r *Response) Outcome {
	if c.options.Ambiente == "01" && !c.options.Rehearsal && strings.HasSuffix(seal, "SIMU") {
		return Outcome{Sent: true, Err: ErrSimulated}
	}
	return Outcome{Kind: Accepted, Response: r}
}

// response returns MH's answer about a document.
func (a answer) response() *Response {
	return &Response{
		Version: a.number("version"), VersionApp: a.number("versionApp"), Ambiente: a.text("ambiente"),
		Estado: a.text("estado"), CodigoGeneracion: a.text("codigoGeneracion"), SelloRecibido: a.text("selloRecibido"),
		FhProcesamiento: a.text("fhProcesamiento"), ClasificaMsg: a.text("clasificaMsg"),
		CodigoMsg: a.text("codigoMsg"), DescripcionMsg: a.text("descripcionMsg"),
		Observaciones: a.texts("observaciones"),
	}
}
