package engine_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// codes matches texts that have the form of a codigoGeneracion.
var codes = regexp.MustCompile(`[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}`)

// repeater is a way to MH that sends every document twice and brings back the second answer, like a proxy that did not
// get the first. While blind, its queries ask about another code, so that MH does not find what it holds.
type repeater struct {
	under http.RoundTripper
	blind bool
}

func (p *repeater) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	ask := func(body []byte) (*http.Response, []byte, error) {
		next := r.Clone(r.Context())
		next.Body, next.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp, err := p.under.RoundTrip(next)
		if err != nil {
			return nil, nil, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		return resp, answer, err
	}
	const digits, others = "0123456789ABCDEF", "1032547698BADCFE"
	another := func(text []byte) []byte { // changes every code, and a second time back
		return codes.ReplaceAllFunc(text, func(code []byte) []byte {
			return bytes.Map(func(c rune) rune {
				if i := strings.IndexRune(digits, c); i >= 0 {
					return rune(others[i])
				}
				return c
			}, code)
		})
	}
	query := strings.HasPrefix(r.URL.Path, "/fesv/recepcion/consultadte")
	if r.URL.Path == "/fesv/recepciondte" {
		if resp, _, err := ask(body); err != nil {
			return resp, err
		}
	}
	if query && p.blind {
		body = another(body)
	}
	resp, answer, err := ask(body)
	if err != nil {
		return nil, err
	}
	if query && p.blind {
		answer = another(answer)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	return resp, nil
}

// TestTransmit_Repeated: MH gets the first sending of a document twice and refuses the second as registered. What MH
// holds is the document, with its seal; while MH's query does not find it, nothing is decided.
func TestTransmit_Repeated(t *testing.T) {
	for name, blind := range map[string]bool{"MH's query finds it": false, "MH's query finds it later": true} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Lateness = true // MH counts the second as a duplicate
				b.Chaos(simulator.Chaos{})
				b.Issue(enginetest.Sale("before", 100))
				way := &repeater{under: b.Wire.Under, blind: blind}
				b.Wire.Under = way
				want := record.EstadoProcessed
				if blind {
					want = record.EstadoContingency
				}
				r := b.Issue(enginetest.Sale("twice", 200))
				if r.Estado != want {
					t.Errorf("it is %s, want %s", r.Estado, want)
				}
				if b.Engine.NumberGuard().Behind() != nil {
					t.Error("its own code is taken for another document's number")
				}
				b.Close()
				b.Start() // over a way that sends once, to an MH that finds
				time.Sleep(time.Hour)
				b.Drained()
				if now := b.Document(r.Code); now.Estado != record.EstadoProcessed ||
					enginetest.Text(t, now, "identificacion",
						"tipoModelo") != "1" {
					t.Errorf("in the end it is %s, %s", now.Estado, now.JSON)
				}
				if got := b.Sim.Received(); got.Documents != 2 || got.Events != 0 {
					t.Errorf("MH received %+v", got)
				}
				b.Audit()
			})
		})
	}
}

// TestRepeated_Behind: a box's disk has lost the last move of a sale, to its contingency form, which the card has. A
// till repeats the sale, and MH answers again. The box cannot note what MH would answer, so it sends nothing: after
// recover nobody would know that MH has the normal form.
func TestRepeated_Behind(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Close()
		b.Second = "/card"
		b.Start()
		b.Chaos(simulator.Chaos{Silence: true})
		sold := make(chan struct{})
		go func() { defer close(sold); b.Issue(enginetest.Sale("a", 100)) }()
		time.Sleep(time.Second)
		disk := b.Fs.Copy() // the sale is signed, and not settled
		<-sold
		b.Close()
		err := disk.RemoveAll(b.Second)
		if ok, bad := vfs.Clone(b.Fs, disk, b.Second, b.Second); err != nil || !ok || bad != nil {
			t.Fatal(err, ok, bad)
		}
		b.Fs = disk
		b.Start()
		if len(b.Store.Behind()) != 1 {
			t.Fatal(b.Store.Behind())
		}
		b.Chaos(simulator.Chaos{})
		_, err = b.Engine.Issue(context.Background(), enginetest.Sale("a", 100))
		for code := range b.Sim.Accepted() {
			t.Errorf("MH holds %s", code)
		}
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	})
}
