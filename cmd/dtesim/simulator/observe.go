package simulator

import (
	"iter"
	"time"
)

// This file holds what tests and operators do with a simulator, and what they can observe.

// Chaos replaces all hostilities by c, and returns when c is in force: once an outage is switched on, the port refuses
// connections; once it is switched off, the port accepts them. Chaos fails if c is not valid or the port cannot be
// opened again.
func (s *Simulator) Chaos(c Chaos) error { return s.hostility.Chaos(c) }

// Hostilities returns the hostilities in force, with what is left of each counter.
func (s *Simulator) Hostilities() Chaos { return s.hostility.Hostilities() }

// Schedule changes the hostilities at the given times from now on, by the process's clock. A round of steps repeats
// after every, unless that is zero. Schedule ends the schedule in force, as do Reset and the end of Serve. It fails if
// a step is not valid, a time is negative, or every is not later than the last step.
func (s *Simulator) Schedule(every time.Duration, steps ...Step) error {
	return s.hostility.Schedule(every, steps...)
}

// Received returns the counts of what was received.
func (s *Simulator) Received() Counts { return s.registry.Received() }

// Types counts the accepted documents, alone or in lots, by type (CAT-002; a retorno is 18). A document that was
// invalidated later is still counted.
func (s *Simulator) Types() map[string]int { return s.registry.Types() }

// Document returns what is known of a codigoGeneracion, and false if it was never received.
func (s *Simulator) Document(code string) (Attempt, bool) { return s.registry.Document(code) }

// Accepted yields the accepted documents with their codigoGeneracion, in the order of their seals. It includes
// invalidated documents and excludes events. It lists the documents of the moment of the call.
func (s *Simulator) Accepted() iter.Seq2[string, Attempt] { return s.registry.Accepted() }

// Events returns the contingency events received, in order.
func (s *Simulator) Events() []Event { return s.registry.Events() }

// Audit lists, in order, the breaches since the start or the last Reset. A branch without faults commits none, and an
// answer alone may not show them: a document sent before its event or before the answer with the event's seal; a
// document unlike its entry in the event; a document or event sent after the legal time; another document under an
// accepted code; a number used twice; an event that lists a code accepted or listed before; a note or retorno sent
// before the seal of the document that it adjusts; a lot or event that is too large.
func (s *Simulator) Audit() []string { return s.registry.Audit() }
