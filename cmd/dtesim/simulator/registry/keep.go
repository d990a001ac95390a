package registry

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// kept is an accepted document or event in the file's form, a line of JSON.
type kept struct {
	NIT     string    `json:"nit"`
	Tipo    string    `json:"tipo"`
	Ambient string    `json:"ambiente"`
	Version int       `json:"version"`
	Payload []byte    `json:"payload"`
	At      time.Time `json:"at"`
	Answer  Answer    `json:"answer"`
}

// Keep reads from a file what an earlier authority accepted, and appends everything that is accepted from now on. It
// keeps nothing else: no refusals, lots, breaches or counters of attempts. A last line that a crash cut short is
// dropped. Call Keep before anything is received.
func (s *Registry) Keep(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening what the authority has received: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size, lines := int64(0), bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if err != io.EOF {
				return errors.Join(fmt.Errorf("reading %s: %w", path, err), f.Close())
			}
			break
		}
		var k kept
		if err := json.Unmarshal(bytes.TrimSpace(line), &k); err != nil || k.Answer.CodigoGeneracion == nil ||
			k.Answer.SelloRecibido == nil {
			return errors.Join(fmt.Errorf("%s: line %d is not an accepted document: %w", path, n, err), f.Close())
		}
		s.books.restore(&k)
		size += int64(len(line))
	}
	if err := errors.Join(f.Truncate(size), seek(f, size)); err != nil {
		return errors.Join(fmt.Errorf("opening %s behind its end: %w", path, err), f.Close())
	}
	s.file, s.books.file = f, f
	return nil
}

func seek(f *os.File, to int64) error { _, err := f.Seek(to, io.SeekStart); return err }

// Close closes the file of Keep.
func (s *Registry) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.books.file = nil, nil
	return f.Close()
}

// write appends an accepted document or event to the file. If that fails, it logs the error and continues.
func (b *books) write(d *document.Document, a Answer) {
	if b.file == nil {
		return
	}
	at := d.Done
	if document.IsEvent(d.Tipo) {
		at = d.At
	}
	line, err := json.Marshal(kept{d.Issuer.NIT, d.Tipo, d.Ambiente, d.Version, d.Payload, at, a})
	if err == nil {
		_, err = b.file.Write(append(line, '\n'))
	}
	if err != nil {
		b.log.Error("what was accepted is not kept", "code", d.Code, "error", err)
	}
}

// restore enters in the books what an earlier authority accepted.
func (b *books) restore(k *kept) {
	d := document.Reread(document.Submission{Ambiente: k.Ambient, Tipo: k.Tipo, Code: *k.Answer.CodigoGeneracion,
		Version: k.Version}, k.Payload)
	d.Issuer.NIT, d.Payload, d.At, d.Done = k.NIT, k.Payload, k.At, k.At
	held := b.enter(d, k.Answer)
	switch k.Tipo {
	case document.Anulacion:
		if o := b.records[d.Root.Object("documento").Text("codigoGeneracion")]; o != nil {
			o.invalidated = true
		}
		b.counts.Invalidations++
	case document.Contingencia:
		b.announce(d, *k.Answer.SelloRecibido, held.turn).told = true
	default:
		b.place(d, held, b.adjusted(d))
	}
}
