package record

import (
	"time"

	"dtegate/storage"
)

// Delivery is the progress of a document to its receiver and into the archive. A step that is nil is not wanted.
type Delivery struct {
	Mail    *Step `json:"mail,omitempty"`
	Archive *Step `json:"archive,omitempty"`
}

// Step is one delivery of a document.
type Step struct {
	Result string    `json:"result,omitempty"` // "" while it is tried
	Since  time.Time `json:"since"`
	Next   time.Time `json:"next,omitzero"`
	// Away: the server did not take this box. It is tried again as soon as it does.
	Away  bool   `json:"away,omitempty"`
	Error string `json:"error,omitempty"` // of the last attempt
	// Held, of the archive, is what it held when it took the document's files, in the order of archiveFiles.
	Held [2]ArchivedObject `json:"held,omitzero"`
}

// ArchivedObject is what the archive reported about a file.
type ArchivedObject struct {
	Sum string `json:"sum"` // base64 of its SHA-256
	Tag string `json:"tag"` // its ETag
}

// Results of a step.
const (
	StepDone   = "done"
	StepFailed = "failed"
)

// Pending reports whether the step is still tried. It is false for nil.
func (s *Step) Pending() bool { return s != nil && s.Result == "" }

// Failed reports whether the step was given up. It is false for nil.
func (s *Step) Failed() bool { return s != nil && s.Result == StepFailed }

// Postpone records a failed attempt and sets the next: after as long as the step has been tried, but at least one
// minute and at most six hours. away: the server did not accept this box.
func (s *Step) Postpone(now time.Time, why error, away bool) {
	s.Next = now.Add(min(max(now.Sub(s.Since), time.Minute), 6*time.Hour))
	s.Error, s.Away = why.Error(), away
}

// End records the last result of a step: StepDone, StepFailed or StepForgotten. why may be nil.
func (s *Step) End(result string, why error) {
	s.Result, s.Next, s.Away, s.Error = result, time.Time{}, false, ""
	if why != nil {
		s.Error = why.Error()
	}
}

// Due returns when the next step of a delivery is due, nil if nothing is to be done.
func (d *Delivery) Due() *storage.Due {
	if d == nil {
		return nil
	}
	var at time.Time
	var failed *Step
	for _, s := range []*Step{d.Mail, d.Archive} {
		switch {
		case s.Pending():
			Earliest(&at, s.Next)
		case s.Failed():
			failed = s
		}
	}
	switch {
	case !at.IsZero():
		return &storage.Due{Queue: QueueDeliver, At: at}
	case failed != nil:
		return &storage.Due{Queue: QueueUndelivered, At: failed.Since}
	}
	return nil
}

// StepForgotten is the result of a step that was given up, and that people have settled in another way.
const StepForgotten = "forgotten"

// Archived reports whether the archive has the document's files.
func (h *Head) Archived() bool {
	return h.Delivery != nil && h.Delivery.Archive != nil && h.Delivery.Archive.Result == StepDone
}

// Earliest sets at to t if t is earlier or at is zero. A zero t changes nothing.
func Earliest(at *time.Time, t time.Time) {
	if !t.IsZero() && (at.IsZero() || t.Before(*at)) {
		*at = t
	}
}

// OweDelivery returns when the next delivery of a document is due, if the document moves from one state to another; nil
// if nothing is to be delivered. When MH accepts a document for the first time, the head gets its deliveries: to the
// receiver if mail is set up and the document has an address, and to the archive if there is one. A record has only one
// place in a queue. An invalidation uses that place meanwhile, and the delivery gets it back afterwards.
func (h *Head) OweDelivery(from, to storage.State, mail, archive bool, now time.Time) *storage.Due {
	if to != Accepted && to != Invalidated {
		return nil
	}
	if h.Delivery == nil && from != Accepted && from != Invalidated {
		at := now.UTC().Truncate(time.Millisecond)
		var d Delivery
		if mail && h.Mail != "" {
			d.Mail = &Step{Since: at, Next: at}
		}
		if archive {
			d.Archive = &Step{Since: at, Next: at}
		}
		if d != (Delivery{}) {
			h.Delivery = &d
		}
	}
	return h.Delivery.Due()
}
