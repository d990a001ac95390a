package contingency

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// parallel is how many documents are queried or moved at once: their commits share the disk's syncs.
const parallel = 32

// document is a document that MH must still receive.
type document struct {
	entry storage.Entry
	head  *record.Head
	jws   []byte // the form that head.Form names; nil: not read yet
}

func (o document) code() string { return dte.Code(o.entry.Code).String() }

// mayTurnUp reports whether only the normal form was sent: MH may still seal it much later.
func (o document) mayTurnUp() bool { return !o.head.Sent.IsZero() && o.head.Forwarded.IsZero() }

// newlyCorrected reports whether the last correction has not been sent yet: MH may have accepted an earlier form.
func (o document) newlyCorrected() bool {
	n := record.CorrectionNumber(o.head.Form)
	return n > 0 && o.head.CorrectionSent(n).IsZero()
}

// waiting returns the documents of a queue that are due before a time. It sets aside unreadable documents.
func (c *Contingency) waiting(ctx context.Context, queue string, before time.Time, limit int) ([]document, error) {
	entries, err := record.Due(c.branch.Store, queue, before, limit)
	if err != nil {
		return nil, fmt.Errorf("reading queue %s: %w", queue, err)
	}
	list := make([]document, 0, len(entries))
	for _, entry := range entries {
		h, err := record.DecodeHead(entry)
		if err == nil {
			list = append(list, document{entry: entry, head: h})
		} else if err := c.branch.Lost.Skip(ctx, entry, err); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// finding is the result of a query about a document in doubt.
type finding int

const (
	absent    finding = iota // MH does not have the document
	adopted                  // MH has the document, and its form is recorded
	undecided                // too early to query, or no result from MH: the document is put off
)

// lookUp asks MH for a document that MH may have, and records the form that MH has. ErrAway: MH cannot be reached.
func (c *Contingency) lookUp(ctx context.Context, o document) (finding, error) {
	h, now := *o.head, c.branch.Now().UTC()
	if h.Sent.After(now) { // the clock was set back after the sending
		h.Sent = now
	}
	if wait := c.branch.Sender.Decidable(h.CreatedAt, h.Sent); now.Before(wait) {
		return undecided, c.move(ctx, o, o.entry.State, o.entry.Due.Queue, wait, &h)
	}
	switch q := c.branch.Sender.Query(ctx, o.code(), o.head.Document); q.Kind {
	case authority.Accepted:
		_, err := c.branch.Documents.AdoptHeld(ctx, o.entry, o.head, q.Response, record.QueryDoubt)
		return adopted, err
	case authority.NotFound:
		return absent, nil
	}
	if c.away(ctx) {
		return absent, ErrAway
	}
	wait := c.branch.Now().Add(c.branch.Sender.DoubtFor) // MH answers, but not about this document
	return undecided, c.move(ctx, o, o.entry.State, o.entry.Due.Queue, wait, o.head)
}

// pick returns the documents for which keep returns true. It calls keep for several documents at once, and sets a
// document aside on ErrLost. Any other error ends the walk.
func (c *Contingency) pick(ctx context.Context, list []document,
	keep func(context.Context, document) (bool, error)) (kept []document, err error) {
	wanted := make([]bool, len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, o := range list {
		g.Go(func() (err error) {
			wanted[i], err = keep(ctx, o)
			return c.branch.Lost.Skip(ctx, o.entry, err)
		})
	}
	err = g.Wait()
	for i, o := range list {
		if wanted[i] {
			kept = append(kept, o)
		}
	}
	return kept, err
}

// eachDocument calls fn for every document, as pick calls keep.
func (c *Contingency) eachDocument(ctx context.Context, list []document,
	fn func(context.Context, document) error) error {
	_, err := c.pick(ctx, list, func(ctx context.Context, o document) (bool, error) { return false, fn(ctx, o) })
	return err
}

// eachDue calls fn for the due records of a queue, at most 100, and sets a record aside on ErrLost. fn reports whether
// it made progress. If MH does not answer about one record, eachDue continues, unless MH cannot be reached at all.
func (c *Contingency) eachDue(ctx context.Context, queue string,
	fn func(context.Context, storage.Entry) (bool, error)) (progress bool, err error) {
	due, err := record.Due(c.branch.Store, queue, c.branch.Now(), 100)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", queue, err)
	}
	for _, entry := range due {
		done, failed := fn(ctx, entry)
		failed = c.branch.Lost.Skip(ctx, entry, failed)
		if failed != nil && (!errors.Is(failed, ErrAway) || c.away(ctx)) {
			return progress, failed
		}
		progress, err = progress || done, cmp.Or(err, failed)
	}
	return progress, err
}

func (c *Contingency) move(ctx context.Context, o document, to storage.State, queue string, at time.Time,
	h *record.Head) error {
	_, err := c.branch.Documents.Move(ctx, o.entry, storage.Change{To: to, Due: &storage.Due{Queue: queue, At: at}}, h)
	return err
}

// listed returns the documents of the events or lots in a queue. If the store has lost the list of an event or a lot,
// its documents are missing here and may be sent again: MH recognises duplicates.
func (c *Contingency) listed(queue string, states ...storage.State) (map[storage.Code]bool, error) {
	records, err := c.branch.Store.Due(queue, record.Whenever, 100_000)
	if err != nil {
		return nil, fmt.Errorf("reading queue %s: %w", queue, err)
	}
	listed := make(map[storage.Code]bool)
	for _, r := range records {
		if !slices.Contains(states, r.State) {
			continue
		}
		codes, err := c.codesOf(r.Code)
		if err != nil && !errors.Is(err, record.ErrLost) {
			return nil, err
		}
		for _, c := range codes {
			listed[c] = true
		}
	}
	return listed, nil
}

func (c *Contingency) codesOf(lister storage.Code) ([]storage.Code, error) {
	part, err := record.Part(c.branch.Store, lister, partCodes)
	if err != nil {
		return nil, fmt.Errorf("reading the list of documents: %w", err)
	}
	var texts []string
	if err := json.Unmarshal(part, &texts); err != nil {
		return nil, fmt.Errorf("%w: decoding the list of documents: %w", record.ErrLost, err)
	}
	codes := make([]storage.Code, len(texts))
	for i, t := range texts {
		id, err := dte.ParseCode(t)
		if err != nil {
			return nil, fmt.Errorf("%w: decoding the list of documents: %w", record.ErrLost, err)
		}
		codes[i] = storage.Code(id)
	}
	return codes, nil
}

// documents returns the documents of an event or a lot that are in one of the states, except lost documents.
func (c *Contingency) documents(lister storage.Code, states ...storage.State) ([]document, error) {
	codes, err := c.codesOf(lister)
	if err != nil {
		return nil, err
	}
	var list []document
	for _, code := range codes {
		entry, err := c.branch.Store.Get(code)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(states, entry.State) {
			continue
		}
		if h, err := record.DecodeHead(entry); err == nil { // otherwise the walk over its queue sets the document aside
			list = append(list, document{entry: entry, head: h})
		}
	}
	return list, nil
}
