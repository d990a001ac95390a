package registry

import "dtegate/cmd/dtesim/simulator/document"

// Judge is MH's own processing of one document: signature first, then structure, then data, then the seal (MT1 §3).
// The first check that fails is the answer.
func (s *Registry) Judge(d *document.Document) Answer {
	notes, r := s.examine(d)
	if r != nil {
		return Rejected(d.Ambiente, d.Code, d.Done, r)
	}
	// 7. Uniqueness, the event and the documents it refers to, and the seal, in one step.
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

// Find is the answer that an issuer's document got when it was accepted; false when MH holds none.
func (s *Registry) Find(nit, tipo, code string) (Answer, bool) {
	s.lock()
	defer s.mu.Unlock()
	held := s.books.records[code]
	if held == nil || held.nit != nit || held.tipo != tipo || document.IsEvent(held.tipo) {
		return Answer{}, false
	}
	return held.answer, true
}
