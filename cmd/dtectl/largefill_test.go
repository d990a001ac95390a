package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/cmd/dtectl/demo"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// saleLines is a consumer's invoice with this many lines.
func saleLines(n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(
			`{"descripcion":"Artículo de despensa número %03d, paquete familiar","cantidad":%d,"precioUnitario":%d.95}`,
			i*37%211, 1+i%4, 1+i%9))
	}
	return `{"receptor":{"nombre":"Ana Morales","tipoDocumento":"13","numDocumento":"012345678"},"items":[` +
		strings.Join(items, ",") + `],"condicionOperacion":1}`
}

// copied is a real document to copy, as the store keeps it.
type copied struct {
	settled storage.Entry
	parts   []storage.Part
}

func (p *copied) bytes() int {
	n := 2*len(p.settled.Head) + 700 // rows of journal, code, key
	for _, part := range p.parts {
		n += len(part.Data)
	}
	return n
}

// originals sells a few times, with ten lines and with three, and reads what the store then holds.
func (l *large) originals() (list []copied) {
	stopAuthority := l.authority()
	_, _, stop := l.dted()
	for range 4 {
		l.sell("/dte/dte01", saleLines(10))
		l.sell("/dte/dte03", demo.SaleCCF)
		l.sell("/dte/dte01", saleLines(3))
	}
	stop()
	stopAuthority()
	s := l.open()
	l.must(s.Records(0, func(e storage.Entry) error {
		if record.Estado(e.State) != "PROCESSED" {
			return nil
		}
		parts, err := s.Parts(e.Code)
		list = append(list, copied{settled: e, parts: parts})
		return err
	}), s.Close())
	if len(list) < 6 {
		l.t.Fatalf("only %d documents were accepted", len(list))
	}
	return list
}

func (l *large) open() *storage.Store {
	s, err := storage.Open(storage.Options{Dir: l.cfg.Data, MarkPath: l.cfg.Mark, Logger: slog.New(slog.DiscardHandler),
		Now: time.Now})
	l.must(err)
	return s
}

// fill copies the originals through Append and Advance, many at once, so that they share the disk's syncs.
func (l *large) fill(originals []copied) {
	s := l.open()
	start := time.Now()
	first := start.AddDate(0, 0, -number(l.t, "DTE_LARGE_DAYS", 3*365))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(l.n); i = next.Add(1) {
				at := first.Add(time.Duration(i) * (start.Sub(first) / time.Duration(l.n)))
				if err := originals[int(i)%len(originals)].copyTo(s, at, int(i%8)+1); err != nil {
					l.t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	l.row("filling, two synced changes a document", time.Since(start).Seconds(), 0, "s")
	l.must(s.Close())
}

var (
	codeOf    = regexp.MustCompile(`[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[0-9A-F]{4}-[0-9A-F]{12}`)
	controlOf = regexp.MustCompile(`DTE-\d\d-M001P\d\d\d-\d{15}`)
	dateOf    = regexp.MustCompile(`"date":"[-0-9]{10}"`)
	fecEmiOf  = regexp.MustCompile(`"fecEmi":"[-0-9]{10}"`)
)

func (p *copied) copyTo(s *storage.Store, at time.Time, point int) error {
	code, err := dte.NewCode(rand.Reader)
	if err != nil {
		return err
	}
	document := strings.Split(p.settled.Series, "/")[1]
	var key [32]byte
	_, _ = rand.Read(key[:])
	rewrite := func(b []byte, number uint64) []byte {
		b = codeOf.ReplaceAll(b, []byte(code.String()))
		b = controlOf.ReplaceAll(b, fmt.Appendf(nil, "DTE-%s-M001P%03d-%015d", document, point, number))
		b = fecEmiOf.ReplaceAll(b, fmt.Appendf(nil, `"fecEmi":%q`, dte.Date(at)))
		return dateOf.ReplaceAll(b, fmt.Appendf(nil, `"date":%q`, dte.Date(at)))
	}
	ctx := context.Background()
	a, err := s.Begin(ctx, storage.Keys{Series: fmt.Sprintf("00/%s/M001/P%03d/%d", document, point, dte.Year(at)),
		Idempotency: &storage.Idempotency{Key: key}})
	if err != nil {
		return err
	}
	defer a.Release()
	slot, err := a.Number()
	if err != nil {
		return err
	}
	head := rewrite(p.settled.Head, slot.Number)
	d := storage.Draft{Code: storage.Code(code), State: 1, Head: head, Due: &storage.Due{Queue: "settle", At: at}}
	for _, part := range p.parts {
		d.Parts = append(d.Parts, storage.Part{Name: part.Name, Data: resign(part.Data,
			func(b []byte) []byte { return rewrite(b, slot.Number) })})
	}
	e, err := a.Append(d)
	if err == nil {
		_, err = s.Advance(ctx, e.Code, 1, storage.Change{To: 2, Head: head})
	}
	return err
}

// resign rewrites the payload of a compact JWS and gives it another signature, as hard to compress as a real one.
func resign(part []byte, rewrite func([]byte) []byte) []byte {
	pieces := bytes.Split(part, []byte("."))
	raw := base64.RawURLEncoding
	if len(pieces) != 3 || !bytes.HasPrefix(part, []byte("eyJ")) {
		return rewrite(part)
	}
	body, err := raw.DecodeString(string(pieces[1]))
	if err != nil {
		return part
	}
	signature := make([]byte, 256)
	_, _ = rand.Read(signature)
	return fmt.Appendf(nil, "%s.%s.%s", pieces[0], raw.EncodeToString(rewrite(body)), raw.EncodeToString(signature))
}
