package certify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
)

type record struct {
	Code    string          `json:"codigoGeneracion"`
	Kind    string          `json:"tipoDte"` // only in lists
	Estado  string          `json:"estado"`
	Date    string          `json:"fecEmi"` // only in lists
	JSON    json.RawMessage `json:"dteJson"`
	Answer  *answer         `json:"respuestaMh"`
	Invalid *struct {
		Estado string  `json:"estado"`
		Answer *answer `json:"respuestaMh"`
	} `json:"invalidacion"`
}

// answer is MH's answer to a document or to an invalidation.
type answer struct {
	Code  string   `json:"codigoMsg"`
	Text  string   `json:"descripcionMsg"`
	Notes []string `json:"observaciones"`
}

type till struct {
	o   Options
	say func(what string) // gets the reason when a request is repeated
}

// ask sends one request to the tills' API. The error of a permanent refusal is an *adminclient.Refusal.
func (t *till) ask(ctx context.Context, method, path, key string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(t.o.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("x-api-token", t.o.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := t.o.Client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the branch (is it running?): %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		err := adminclient.ReadRefusal(resp)
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
			return errors.New(err.Error())
		}
		return err
	}
	envelope := struct {
		Data any `json:"data"`
	}{into}
	if err := json.NewDecoder(resp.Body).Decode(&envelope); err != nil {
		return fmt.Errorf("reading the branch's answer: %w", err)
	}
	return nil
}

// AwaitToken sends a request every 100 ms until the branch accepts the token. most is the largest number of requests.
func (o *Options) AwaitToken(ctx context.Context, most int) error {
	for tries := 1; ; tries++ {
		var known json.RawMessage
		err := (&till{o: *o}).ask(ctx, http.MethodGet, "/dte/information", "", nil, &known)
		if refused := new(adminclient.Refusal); tries == most || !errors.As(err, &refused) {
			return err
		}
		if err := fairqueue.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// insist repeats a request until the answer is final. All attempts with one Idempotency-Key make one sale.
func (t *till) insist(ctx context.Context, method, path, key string, body []byte, into any) error {
	for pause, begun := 100*time.Millisecond, t.o.Now(); ; pause = min(2*pause, 5*time.Second) {
		err := t.ask(ctx, method, path, key, body, into)
		if _, refused := errors.AsType[*adminclient.Refusal](err); err == nil || refused {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if t.o.Now().Sub(begun) > t.o.Patience {
			return fmt.Errorf("no answer for %v: %w", t.o.Patience, err)
		}
		t.say(err.Error() + "; asking again")
		if err := fairqueue.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// documents lists the documents of a kind and state that the token's point of sale issued, by time of issue.
func (t *till) documents(ctx context.Context, kind, estado, since string) (all []record, err error) {
	first, err := time.Parse(time.DateOnly, since)
	if err != nil {
		return nil, fmt.Errorf("since when tests count: %w", err)
	}
	last, err := time.Parse(time.DateOnly, dte.Date(t.o.Now()))
	if err != nil {
		return nil, err
	}
	const window = 31 // the most days that the API lists at once
	for from := first; !from.After(last); from = from.AddDate(0, 0, window) {
		query := fmt.Sprintf("/dte/documentos?tipo=%s&estado=%s&puntoVenta=propio&limite=500&desde=%s&hasta=%s", kind,
			estado, from.Format(time.DateOnly), from.AddDate(0, 0, window-1).Format(time.DateOnly))
		for cursor := ""; ; {
			var page struct {
				Documents []record `json:"documentos"`
				Next      *string  `json:"siguiente"`
			}
			if err := t.insist(ctx, http.MethodGet, query+cursor, "", nil, &page); err != nil {
				return nil, err
			}
			all = append(all, page.Documents...)
			if page.Next == nil {
				break
			}
			cursor = "&cursor=" + *page.Next
		}
	}
	return all, nil
}

func (t *till) document(ctx context.Context, code string) (*record, error) {
	d := new(record)
	return d, t.insist(ctx, http.MethodGet, "/dte/documento/"+code, "", nil, d)
}
