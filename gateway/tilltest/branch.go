// Package tilltest plays a till: requests over a socket against a whole branch (gateway, engine, rules, store) and a
// simulated authority, on a day of the test's choice.
package tilltest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/gateway"
	"dtegate/gateway/apitest"
	"dtegate/plugins"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Token is the till's token.
const Token = "the token of the till in this test"

// Branch is a branch and its authority. Its clock runs as the process's does, from another day.
type Branch struct {
	t      testing.TB
	URL    string
	Sim    *simulator.Simulator
	Engine *engine.Engine
	Store  *storage.Store

	ahead  atomic.Int64 // the branch's clock minus the process's, in nanoseconds
	client *http.Client
	done   sync.WaitGroup
}

// tillContract is the contract that every exchange of a till with a branch is checked against.
var tillContract = sync.OnceValues(func() (*apitest.Contract, error) {
	text, err := contractText()
	if err != nil {
		return nil, err
	}
	return apitest.Parse(text)
})

// TypesIssued are the types that a branch issues by default.
func TypesIssued() []*bundle.Type {
	return slices.DeleteFunc(plugins.Types(), func(t *bundle.Type) bool {
		return !slices.Contains(plugins.Issued(), t.Document)
	})
}

// contractText is the contract of a branch that issues the types of today.
var contractText = sync.OnceValues(func() ([]byte, error) {
	if err := record.Learn(TypesIssued()...); err != nil {
		return nil, err
	}
	return gateway.OpenAPI(TypesIssued(), "en")
})

// Open starts a branch with an empty store in an ambiente (CAT-001) at a time. When the test ends, it stops the branch
// and checks its store.
func Open(t testing.TB, ambiente string, begin time.Time) *Branch {
	t.Helper()
	return OpenWith(t, ambiente, begin, func(*engine.Options) {})
}

// OpenWith is Open with other settings of the engine.
func OpenWith(t testing.TB, ambiente string, begin time.Time, set func(*engine.Options)) *Branch {
	t.Helper()
	contract, err := tillContract()
	if err != nil {
		t.Fatal(err)
	}
	connections := &http.Transport{}
	b := &Branch{t: t, client: &http.Client{Transport: contract.Transport(connections)}}
	b.Set(begin)
	w := enginetest.NewWorldIn(t, ambiente, b.Now, func(o *engine.Options) {
		o.DoubtFor = time.Millisecond
		o.Contingency = contingency.Options{Hurry: 200,
			Responsible: record.Person{Name: "María López", DocumentType: "13", Document: "012345678"}}
		set(o)
	})
	b.Sim, b.Engine, b.Store = w.Sim, w.Engine, w.Store
	ctx, stop := context.WithCancel(context.Background())
	b.run(func() error { return b.Engine.Run(ctx) })

	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(Token))
	table := gateway.NewTokenTable([]byte("secret"), []gateway.Token{{ID: 1, Hash: [32]byte(mac.Sum(nil)),
		Point: record.Point{ID: 1, BranchID: 1, Establishment: "M001", PointOfSale: "P001"},
		Permissions: []string{"FACTURA_CONSUMIDOR_FINAL", "CREDITO_FISCAL", "NOTA_CREDITO", "NOTA_DEBITO",
			"SUJETO_EXCLUIDO", "COMPROBANTE_RETENCION", "FACTURA_EXPORTACION", "ANULACION"}}})
	door := gateway.New(gateway.Options{Sales: b.Engine, Documents: b.Engine.Documents(), Outbox: b.Engine.Outbox(),
		Tokens: table, Logger: enginetest.Quiet, Now: b.Now, Slug: "tienda",
		Limits: gateway.Limits{Rate: 1_000_000, Burst: 1_000_000}})
	tills, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.run(func() error { return door.Serve(ctx, tills) })
	b.URL = "http://" + tills.Addr().String()
	t.Cleanup(func() {
		connections.CloseIdleConnections()
		for _, fault := range contract.Faults() {
			t.Error("the contract is broken:", fault)
		}
		stop()
		b.done.Wait()
		w.Close()
	})
	return b
}

func (b *Branch) run(f func() error) {
	b.done.Go(func() {
		if err := f(); err != nil {
			b.t.Error(err)
		}
	})
}

// Now is the branch's time, and MH's.
func (b *Branch) Now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

// Set sets the clocks of the branch and of MH to a time.
func (b *Branch) Set(now time.Time) { b.ahead.Store(int64(time.Until(now))) }

// Answer is what the branch answered to a request.
type Answer struct {
	Status  int
	Headers http.Header
	Body    []byte

	Estado, Code, Number, Document, Total string // of a record
	Sequence                              string
	Rejection, RejectionCode              string // what MH said
	Observations                          []string
	Type, Message                         string // of an error
	Faults                                []Fault
}

// Fault is one fault of an error.
type Fault struct{ Path, Code, Message string }

// Post sends a request to a path below /dte/ and reads the answer.
func (b *Branch) Post(path string, body []byte) (a Answer) {
	b.t.Helper()
	return b.do(http.MethodPost, path, body)
}

// Get asks for a path below /dte/.
func (b *Branch) Get(path string) (a Answer) {
	b.t.Helper()
	return b.do(http.MethodGet, path, nil)
}

// keyed is Post with headers: an Idempotency-Key, if it is not empty, and those that follow, by name and value.
func (b *Branch) keyed(key, path, body string, headers ...string) Answer {
	b.t.Helper()
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	return b.do(http.MethodPost, path, []byte(body), headers...)
}

func (b *Branch) do(method, path string, body []byte, headers ...string) (a Answer) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.URL+"/dte/"+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("x-api-token", Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	a.Status, a.Headers = resp.StatusCode, resp.Header
	if a.Body, err = io.ReadAll(resp.Body); err != nil {
		b.t.Fatal(err)
	}
	a.read(b.t)
	return a
}

func (a *Answer) read(t testing.TB) {
	t.Helper()
	var said struct {
		Type, Message string
		Errors        []Fault
		Data          struct {
			Estado           string
			CodigoGeneracion string
			NumeroControl    string
			Total            string
			SequenceNumber   string
			DteJSON          json.RawMessage `json:"dteJson"`
			RespuestaMh      struct{ CodigoMsg, DescripcionMsg string }
			AnalisisHacienda struct{ Observaciones []string }
		}
	}
	if err := json.Unmarshal(a.Body, &said); err != nil {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	d := said.Data
	a.Estado, a.Code, a.Number, a.Total, a.Sequence = d.Estado, d.CodigoGeneracion, d.NumeroControl, d.Total,
		d.SequenceNumber
	a.Document, a.Rejection, a.RejectionCode = string(d.DteJSON), d.RespuestaMh.DescripcionMsg, d.RespuestaMh.CodigoMsg
	a.Observations, a.Type, a.Message, a.Faults = d.AnalisisHacienda.Observaciones, said.Type, said.Message, said.Errors
}

// String is the answer in one line.
func (a Answer) String() string {
	if a.Status < 300 {
		return strings.TrimSpace(fmt.Sprintf("%d %s %s %s %s", a.Status, a.Estado, a.Total, a.RejectionCode,
			a.Rejection))
	}
	var faults []string
	for _, f := range a.Faults {
		faults = append(faults, f.Path+": "+f.Code+": "+f.Message)
	}
	return fmt.Sprintf("%d %s %s [%s]", a.Status, a.Type, a.Message, strings.Join(faults, "; "))
}
