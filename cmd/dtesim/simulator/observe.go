package simulator

import (
	"iter"
	"time"
)

// This file is what tests and operators do to a simulator, and what they see of it.

// Chaos replaces every hostility by those given, and returns when they are in force: after an outage was switched
// on, the port refuses; after it was switched off, the port accepts. It fails when a number is negative or the port
// cannot be opened again.
func (s *Simulator) Chaos(c Chaos) error { return s.hostility.Chaos(c) }

// Hostilities returns those in force, with what is left of the counters.
func (s *Simulator) Hostilities() Chaos { return s.hostility.Hostilities() }

// Schedule changes the hostilities at the given times from now on, by the process's clock, again and again if every is
// not zero. It replaces the schedule in force; without steps it only ends that one. Reset and the end of Serve end it
// too. It fails when a time is negative, or a round is not longer than its last step.
func (s *Simulator) Schedule(every time.Duration, steps ...Step) error {
	return s.hostility.Schedule(every, steps...)
}

// Received counts what was received.
func (s *Simulator) Received() Counts { return s.registry.Received() }

// Types counts the documents that were accepted, alone or in lots, by type (CAT-002; a retorno is 18). One that was
// invalidated since remains counted.
func (s *Simulator) Types() map[string]int { return s.registry.Types() }

// Document tells what is known of a codigoGeneracion; false when it was never received.
func (s *Simulator) Document(code string) (Attempt, bool) { return s.registry.Document(code) }

// Accepted yields the accepted documents by codigoGeneracion, in the order of their seals; invalidated ones are among
// them, events are not. It is a view of the moment of the call.
func (s *Simulator) Accepted() iter.Seq2[string, Attempt] { return s.registry.Accepted() }

// Events returns the contingency events received, in order.
func (s *Simulator) Events() []Event { return s.registry.Events() }

// Audit lists, in order, the breaches of the rules that a branch without faults never commits and that an answer
// alone may not show. Since the start or the last Reset: a document sent before its event, or before the seal of its
// event was answered; one that the event does not describe; one sent, or an event, after the legal time; another
// document under an accepted code; a number used twice; an event that lists an accepted code or one listed before; a
// note or retorno sent before what it adjusts was sealed; a lot or event that is too large. None is what one hopes for.
func (s *Simulator) Audit() []string { return s.registry.Audit() }
