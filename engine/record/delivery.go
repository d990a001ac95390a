package record

import (
	"time"

	"dtegate/storage"
)

// Delivery is how far a document got on its way to its receiver and into the archive; a step that is nil is not wanted.
type Delivery struct {
	Mail    *Step `json:"mail,omitempty"`
	Archive *Step `json:"archive,omitempty"`
}

// Step is one thing to deliver.
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

// ArchivedObject is the archive's word for a file.
type ArchivedObject struct {
	Sum string `json:"sum"` // base64 of its SHA-256
	Tag string `json:"tag"` // its ETag
}

// Results of a step.
const (
	StepDone   = "done"
	StepFailed = "failed"
)

func (s *Step) Pending() bool { return s != nil && s.Result == "" }

func (s *Step) Failed() bool { return s != nil && s.Result == StepFailed }

// Postpone records an attempt that may be repeated: after a minute, and then whenever the time since the beginning has doubled,
// at most six hours apart.
func (s *Step) Postpone(now time.Time, why error, away bool) {
	s.Next = now.Add(min(max(now.Sub(s.Since), time.Minute), 6*time.Hour))
	s.Error, s.Away = why.Error(), away
}

func (s *Step) End(result string, why error) {
	s.Result, s.Next, s.Away, s.Error = result, time.Time{}, false, ""
	if why != nil {
		s.Error = why.Error()
	}
}

// Due is when something is to be done for a document, nil when nothing is.
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

// StepForgotten is the result of a step that was given up and that people have settled otherwise.
const StepForgotten = "forgotten"

func (h *Head) Archived() bool {
	return h.Delivery != nil && h.Delivery.Archive != nil && h.Delivery.Archive.Result == StepDone
}

func Earliest(at *time.Time, t time.Time) {
	if !t.IsZero() && (at.IsZero() || t.Before(*at)) {
		*at = t
	}
}

// OweDelivery returns when something is to be delivered of a document that moves between two states, nil when nothing is. What
// MH accepts for the first time is owed from then on to its receiver, if mail is set up and the document bears an address, and
// to the archive, if there is one. An invalidation borrows the document's place in the queue: afterwards it stands there again.
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
