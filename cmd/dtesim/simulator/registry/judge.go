package registry

import "dtegate/cmd/dtesim/simulator/document"

// Judge processes one document as MH does: first the signature, then structure, data and the seal (MT1 §3). The first
// check that fails gives the answer.
func (s *Registry) Judge(d *document.Document) Answer {
	notes, r := s.examine(d)
	if r != nil {
		return Rejected(d.Ambiente, d.Code, d.Done, r)
	}
	// 7. In one step: uniqueness, the event, the documents that d refers to, and the seal.
	a, r := s.register(d, notes)
	if r != nil {
		return Rejected(d.Ambiente, d.Code, d.Done, r)
	}
	return a
}

// examine counts an attempt, and checks what can be checked without the books.
func (s *Registry) examine(d *document.Document) (notes []string, _ *document.Refusal) {
	s.arrived(d)
	notes, bad := s.reader.Examine(d)
	s.keep(d)
	return notes, bad
}

// keep stores a payload with a valid signature for observers until the payload is accepted.
func (s *Registry) keep(d *document.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Payload != nil && d.Code != "" && s.books.records[d.Code] == nil {
		s.books.signed[d.Code] = d.Payload
	}
}

// Find returns the answer to an issuer's accepted document, or false if MH does not hold the document.
func (s *Registry) Find(nit, tipo, code string) (Answer, bool) {
	s.lock()
	defer s.mu.Unlock()
	held := s.books.records[code]
	if held == nil || held.nit != nit || held.tipo != tipo || document.IsEvent(held.tipo) {
		return Answer{}, false
	}
	return held.answer, true
}
