package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Undelivered counts pending and failed deliveries, at most record.MaxCounted records of each kind.
type Undelivered struct {
	Mail    int `json:"mail"`    // waiting messages
	Archive int `json:"archive"` // waiting documents
	// MailOldest and ArchiveOldest are when the oldest waiting delivery began.
	MailOldest    time.Time `json:"mail_oldest,omitzero"`
	ArchiveOldest time.Time `json:"archive_oldest,omitzero"`
	// MailTrouble and ArchiveTrouble are the causes of a server's last pause, until the server works again.
	MailTrouble    string `json:"mail_trouble,omitempty"`
	ArchiveTrouble string `json:"archive_trouble,omitempty"`
	// GivenUp counts the deliveries that were refused for good or given up; Failures are the first hundred.
	GivenUp  int       `json:"given_up"`
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a message or a document that was given up.
type Failure struct {
	Code  string    `json:"codigoGeneracion"`
	Step  string    `json:"step"` // mail or archive
	To    string    `json:"to,omitempty"`
	Token int64     `json:"token,omitempty"` // the token that requested the message, or that issued the document
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

const maxFailures = 100

// CountUndelivered counts the waiting and the given-up deliveries into u. Errors: the store's.
func (box *Outbox) CountUndelivered(u *Undelivered) error {
	due, err := box.o.Store.Due(record.QueueDeliver, record.Whenever, record.MaxCounted)
	if err != nil {
		return fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
	}
	for _, entry := range due {
		s, _, _, _, err := owedOf(entry)
		if err != nil {
			continue // deliverDue sets the record aside when it is due
		}
		if s.Mail.Pending() {
			u.Mail++
			record.Earliest(&u.MailOldest, s.Mail.Since)
		}
		if s.Archive.Pending() {
			u.Archive++
			record.Earliest(&u.ArchiveOldest, s.Archive.Since)
		}
	}
	if _, why := box.delivery.servers[mailServer].leftAlone(box.o.Now()); why != nil {
		u.MailTrouble = why.Error()
	}
	if _, why := box.delivery.servers[archiveServer].leftAlone(box.o.Now()); why != nil {
		u.ArchiveTrouble = why.Error()
	}
	u.GivenUp, u.Failures, err = box.failures(maxFailures)
	return err
}

func (box *Outbox) failures(limit int) (total int, list []Failure, err error) {
	failed, err := box.o.Store.Due(record.QueueUndelivered, record.Whenever, record.MaxCounted)
	if err != nil {
		return 0, nil, fmt.Errorf("reading queue %s: %w", record.QueueUndelivered, err)
	}
	for _, entry := range failed[:min(len(failed), limit)] {
		s, code, to, token, err := owedOf(entry)
		if err != nil {
			continue
		}
		if s.Mail.Failed() {
			list = append(list, Failure{Code: code, Step: "mail", To: to, Token: token, Since: s.Mail.Since,
				Error: s.Mail.Error})
		}
		if s.Archive.Failed() {
			list = append(list, Failure{Code: code, Step: "archive", Token: token, Since: s.Archive.Since,
				Error: s.Archive.Error})
		}
	}
	return len(failed), list, nil
}

func (u *Undelivered) Collect(ch chan<- prometheus.Metric) {
	for _, s := range []struct {
		step    string
		waiting int
		oldest  time.Time
		trouble string
	}{{"mail", u.Mail, u.MailOldest, u.MailTrouble}, {"archive", u.Archive, u.ArchiveOldest, u.ArchiveTrouble}} {
		record.SendGauge(ch, "dte_delivery_backlog", "Deliveries that wait, by step: mail, archive.", s.waiting, "step",
			s.step)
		record.SendGauge(ch, "dte_delivery_oldest_timestamp_seconds",
			"When the oldest waiting delivery began, as Unix time; 0 if no delivery waits.", s.oldest, "step", s.step)
		record.SendGauge(ch, "dte_delivery_blocked",
			"1 while the server cannot be used and attempts pause: see /status for the reason.", s.trouble != "",
			"step", s.step)
	}
	record.SendGauge(ch, "dte_delivery_given_up", "Documents and letters that were refused for good or given up: "+
		"/status lists them; dtectl delivery retry and forget, and a resend that succeeds, clear them.", u.GivenUp)
}

// GivenUp lists at most limit messages and documents that were given up, the oldest first. Errors: the store's.
func (box *Outbox) GivenUp(limit int) ([]Failure, error) {
	_, list, err := box.failures(limit)
	return list, refusal.Internal(err)
}

// Retry restarts the given-up deliveries of a document, as if new, and returns their number. With archive, it also
// writes again the files that the archive has lost. Errors: CodeNotFound, or the store's.
func (box *Outbox) Retry(ctx context.Context, code dte.Code, archive bool) (n int, err error) {
	now := box.o.Now().UTC()
	n, err = box.settleGivenUp(ctx, code, archive, func(s *record.Step) *record.Step {
		return &record.Step{Since: now, Next: now, Held: s.Held}
	}, storage.Change{To: record.LetterOpen, Due: &storage.Due{Queue: record.QueueDeliver, At: now}})
	box.delivery.bell.Ring()
	return n, err
}

// Forget marks the given-up deliveries of a document as forgotten, and returns their number. For the code of a lost
// record, it only takes the record off the list of lost records, and returns 1. Errors: CodeNotFound, or the store's.
func (box *Outbox) Forget(ctx context.Context, code dte.Code) (n int, err error) {
	if forgotten, err := box.o.Lost.Forget(ctx, storage.Code(code)); err != nil {
		return 0, refusal.Internal(err)
	} else if forgotten {
		return 1, nil
	}
	return box.settleGivenUp(ctx, code, false, func(s *record.Step) *record.Step {
		return &record.Step{Result: record.StepForgotten, Since: s.Since, Error: s.Error, Held: s.Held}
	}, storage.Change{To: record.LetterFailed})
}

// settleGivenUp replaces the given-up steps of a document and of the letters about it, and returns their number. change
// is for the letters' records. archive: the document's archive step is replaced even if it succeeded.
func (box *Outbox) settleGivenUp(ctx context.Context, code dte.Code, archive bool,
	replace func(*record.Step) *record.Step, change storage.Change) (n int, err error) {
	err = box.o.Documents.ChangeDelivery(ctx, storage.Code(code), func(d *record.Delivery) {
		for i, s := range d.Steps() {
			if (*s).Failed() || archive && i == archiveServer && *s != nil && !(*s).Pending() {
				*s = replace(*s)
				n++
			}
		}
	})
	if errors.Is(err, storage.ErrNotFound) {
		return n, &refusal.Error{Code: refusal.CodeNotFound, Message: "There is no document " + code.String(),
			Operator: true}
	}
	if err != nil {
		return n, refusal.Internal(err)
	}
	failed, err := box.o.Store.Due(record.QueueUndelivered, record.Whenever, record.MaxCounted)
	if err != nil {
		return n, refusal.Internal(fmt.Errorf("reading queue %s: %w", record.QueueUndelivered, err))
	}
	for _, entry := range failed {
		if record.IsDocument(entry.State) {
			continue
		}
		l, err := decodeLetter(entry)
		if err != nil || l.Document != code.String() {
			continue
		}
		l.Step = *replace(&l.Step)
		n++
		if change.Head, err = json.Marshal(l); err != nil {
			return n, refusal.Internal(err)
		}
		if _, err := record.Move(ctx, box.o.Store, entry.Code, record.LetterFailed, change); err != nil {
			return n, refusal.Internal(err)
		}
	}
	return n, nil
}
