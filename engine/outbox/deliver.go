package outbox

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/bell"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Delivery is the way of documents to their receivers and into the archive. Every member may be missing.
type Delivery struct {
	Printer *pdf.Printer     // nil: nothing is printed, mailed or archived
	Mail    *mail.Sender     // nil: nothing is mailed
	Archive *archive.Archive // nil: nothing is archived
	// Domain is the right side of Message-IDs: the sender's own.
	Domain string
	// Contingency mails a document issued in contingency at once, without its seal. It is mailed again when it has it.
	Contingency bool
	// GiveUpAfter is how long the receiver's server may put a message off, default 5 days (RFC 5321 §4.5.4.1).
	GiveUpAfter time.Duration
	// Look of messages: its Trade, Color and Greeting. The rest comes from the document and from Printer.
	Look mail.Look
}

// deliveries is the process's side of delivering; a restart may forget it.
type deliveries struct {
	mail, archive breaker
	bell          bell.Bell
	printing      *fairqueue.Queue // by token

	mu      sync.Mutex
	waiting map[storage.Code]chan string // resends whose till waits, by their letter
}

// withDefaults returns the settings with their defaults. Without a printer nothing is mailed or archived.
func (d Delivery) withDefaults() Delivery {
	if d.GiveUpAfter == 0 {
		d.GiveUpAfter = 5 * 24 * time.Hour
	}
	if d.Printer == nil {
		d.Mail, d.Archive = nil, nil
	}
	return d
}

func (d *deliveries) init(now func() time.Time) {
	d.bell = bell.New()
	// 2,000 lines take 40 MiB and a tenth of a second or more to lay out. A ticket takes two milliseconds: nobody who
	// prints those comes near the allowance.
	d.printing = fairqueue.New(fairqueue.Options{Slots: runtime.NumCPU(), Each: max(1, runtime.NumCPU()/2), Waiting: 16,
		Now:       now,
		Allowance: fairqueue.Allowance{Burst: 5 * time.Second, Share: .15}})
	d.waiting = make(map[storage.Code]chan string)
	// What waited for a server before the restart is tried at once.
	d.mail.resume()
	d.archive.resume()
}

// Run mails and archives what is due, until ctx ends.
func (box *Outbox) Run(ctx context.Context) {
	if box.options.Printer == nil {
		return
	}
	for ctx.Err() == nil {
		next, err := box.deliverDue(ctx)
		if err != nil && ctx.Err() == nil {
			box.log.Error("delivering", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-box.delivery.bell:
		case <-time.After(next):
		}
	}
}

const (
	deliverBatch  = 16   // small: a till that waits for a resend comes after it
	deliverMany   = 5000 // most records that are looked through for those that wait for a server
	deliverAtOnce = 4
)

// deliverDue does what is due and returns when there may be more.
func (box *Outbox) deliverDue(ctx context.Context) (next time.Duration, err error) {
	next = time.Minute
	for ctx.Err() == nil {
		if err := box.retryAway(ctx); err != nil {
			return next, err
		}
		now := box.now()
		due, err := box.store.Due(record.QueueDeliver, now, deliverBatch)
		if err != nil {
			return next, fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
		}
		if len(due) == 0 {
			break
		}
		if err := box.deliverEach(ctx, due, false); err != nil {
			return next, err
		}
	}
	now := box.now()
	first, err := box.store.Due(record.QueueDeliver, now.Add(next), 1)
	if err != nil {
		return next, fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
	}
	if len(first) > 0 {
		next = max(0, first[0].Due.At.Sub(now))
	}
	for _, b := range []*breaker{&box.delivery.mail, &box.delivery.archive} {
		if until := b.retryAt(); !until.IsZero() {
			next = max(0, min(next, until.Sub(now)))
		}
	}
	return next, nil
}

// retryAway tries, where a server's pause is over, one record that waits for it, and all of them when that one gets
// through. It is another one each time: one that a server chokes on must not hold up the others.
func (box *Outbox) retryAway(ctx context.Context) error {
	for _, b := range []*breaker{&box.delivery.mail, &box.delivery.archive} {
		if !b.mayRetry(box.now()) {
			continue
		}
		all, err := box.store.Due(record.QueueDeliver, record.Whenever, deliverMany)
		if err != nil {
			return fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
		}
		var waiting []storage.Entry
		for _, entry := range all {
			s, err := box.stepsOf(entry)
			if err != nil {
				continue // it is set aside when it is due
			}
			if one := map[*breaker]*record.Step{&box.delivery.mail: s.Mail,
				&box.delivery.archive: s.Archive}[b]; one.Pending() && one.Away {
				waiting = append(waiting, entry)
			}
		}
		if len(waiting) == 0 {
			b.reset()
			continue
		}
		i := b.turn(len(waiting))
		if err := box.deliverEach(ctx, waiting[i:i+1], true); err != nil {
			return err
		}
		if b.retryAt().IsZero() {
			if err := box.deliverEach(ctx, append(waiting[:i:i], waiting[i+1:]...), true); err != nil {
				return err
			}
			if len(all) == deliverMany && b.retryAt().IsZero() {
				b.resume() // there are more
			}
		}
	}
	return nil
}

// stepsOf are the steps of a record in the queue, a document's or a letter's.
func (box *Outbox) stepsOf(entry storage.Entry) (record.Delivery, error) {
	if !record.IsDocument(entry.State) {
		l, err := decodeLetter(entry)
		if err != nil {
			return record.Delivery{}, err
		}
		return record.Delivery{Mail: &l.Step}, nil
	}
	h, err := record.DecodeHead(entry)
	if err != nil || h.Delivery == nil {
		return record.Delivery{}, err
	}
	return *h.Delivery, nil
}

// deliverEach delivers several records at once. away: they are not due, their server may be back.
func (box *Outbox) deliverEach(ctx context.Context, entries []storage.Entry, away bool) error {
	work := make(chan storage.Entry)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for range min(deliverAtOnce, len(entries)) {
		wg.Go(func() {
			for entry := range work {
				if err := box.lost.Skip(ctx, entry, box.deliverOne(ctx, entry, away)); err != nil {
					mu.Lock()
					first = errorsFirst(first, fmt.Errorf("delivering %s: %w", dte.Code(entry.Code), err))
					mu.Unlock()
				}
			}
		})
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			break
		}
		work <- entry
	}
	close(work)
	wg.Wait()
	return first
}

func errorsFirst(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// stepWanted returns whether a step is to be tried now.
func stepWanted(s *record.Step, now time.Time, away bool, b *breaker) bool {
	if away {
		open, _ := b.leftAlone(now)
		return s.Pending() && s.Away && !open
	}
	return s.Pending() && !s.Next.After(now)
}

// deliverOne takes the steps of a document that are to be taken now. What has come of them is written to the document
// as it stands then.
func (box *Outbox) deliverOne(ctx context.Context, entry storage.Entry, away bool) error {
	if !record.IsDocument(entry.State) {
		return box.deliverLetter(ctx, entry, away)
	}
	h, err := record.DecodeHead(entry)
	if err != nil || h.Delivery == nil {
		return err
	}
	var mailed, archived *record.Step
	mails, archives := stepWanted(h.Delivery.Mail, box.now(), away, &box.delivery.mail), stepWanted(h.Delivery.Archive,
		box.now(), away, &box.delivery.archive)
	if mails || archives {
		if _, err := record.SignedForm(box.store, entry.Code, h); err != nil {
			return err
		}
	}
	if mails {
		next := *h.Delivery.Mail
		box.mailTo(ctx, &next, entry, h, h.Mail, messageID(entry.Code))
		mailed = &next
	}
	if archives {
		next := *h.Delivery.Archive
		box.archiveOne(ctx, &next, entry, h)
		archived = &next
	}
	if mailed == nil && archived == nil {
		return nil
	}
	return box.docs.ChangeDelivery(ctx, entry.Code, func(d *record.Delivery) {
		if mailed != nil && (ctx.Err() == nil || mailed.Result != "") {
			d.Mail = mailed
		}
		if archived != nil && (ctx.Err() == nil || archived.Result != "") {
			d.Archive = archived
		}
	})
}

// A server that does not take this box is left alone for a while, first one minute, at most five.
const (
	pauseFirst = time.Minute
	PauseMost  = 5 * time.Minute
)

// breaker is what is known of a server.
type breaker struct {
	mu      sync.Mutex
	failing bool
	until   time.Time // when it is tried again
	pause   time.Duration
	why     error
	turns   int
}

// leftAlone tells that the server is left alone now, and why.
func (b *breaker) leftAlone(now time.Time) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing && now.Before(b.until), b.why
}

// mayRetry reports whether it may be tried again.
func (b *breaker) mayRetry(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing && !now.Before(b.until)
}

// retryAt is when it is tried again, zero when nothing is wrong.
func (b *breaker) retryAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.failing {
		return time.Time{}
	}
	return b.until
}

func (b *breaker) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// fail records that the server did not take this box. Attempts that were under way together count once.
func (b *breaker) fail(now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing && now.Before(b.until) {
		return
	}
	b.pause = min(max(2*b.pause, pauseFirst), PauseMost)
	b.failing, b.until, b.why = true, now.Add(b.pause), why
}

// reset records that it did, or that nobody wants anything of it.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing, b.pause, b.why = false, 0, nil
}

// resume has everything that waits for the server tried now.
func (b *breaker) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing, b.until = true, time.Time{}
}

// turn counts 0, 1, … n-1, 0, ….
func (b *breaker) turn(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns++
	return b.turns % n
}
