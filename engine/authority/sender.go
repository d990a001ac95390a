package authority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Policy is how long the authority is given (MT1 §3.3: 8 s, then query, at most two resends). Zero values take the defaults.
type Policy struct {
	// Resends after the first transmission, default 2.
	Resends int
	// Queries without an answer after which the outcome is left open, default 1 more than Resends.
	Queries int
	// DoubtFor is how long after the last sending of a document MH may still be at work on it, default 2 min. Before, a
	// query that does not find it proves nothing.
	DoubtFor time.Duration
}

func (p Policy) withDefaults() Policy {
	p.Resends = cmp.Or(p.Resends, 2)
	p.Queries = cmp.Or(p.Queries, p.Resends+1)
	p.DoubtFor = cmp.Or(p.DoubtFor, 2*time.Minute)
	return p
}

// Span is a time that the branch's store has lived through and lost: it was taken back to a copy from before.
type Span struct{ From, To time.Time }

// SenderOptions of NewSender. Every field is required but Policy and Lost.
type SenderOptions struct {
	Client *Client
	Policy Policy
	Lost   []Span
	Now    func() time.Time
	// Away tells that the branch has found that MH cannot be reached; Suspect is told that this may be so.
	Away    func() bool
	Suspect func()
	// Taken is told of a document whose number MH holds under another code.
	Taken func(code string)
}

// Sender sends documents under the policy, and finds out of each what became of it: accepted, rejected, or unknown.
// What may have arrived is never sent again before a query denies it. It is safe for concurrent use.
type Sender struct {
	SenderOptions
	asked sync.Map // codes that MH was asked for by this process
}

// NewSender returns a sender.
func NewSender(o SenderOptions) *Sender {
	o.Policy = o.Policy.withDefaults()
	return &Sender{SenderOptions: o}
}

// Transmit sends a document and says what became of it (MT1 §3.3): no answer, query; not received, send again, at most
// Resends times. doubtful: the document may have been sent before, at sent the last time.
func (s *Sender) Transmit(ctx context.Context, d Submission, doubtful bool, sent time.Time) Outcome {
	sends, queries, ever := 0, 0, doubtful
	last := Outcome{Kind: Unknown, Sent: doubtful}
	for ctx.Err() == nil {
		if sends+queries > 0 && s.Away() {
			break // the branch has found meanwhile that nobody is there
		}
		if doubtful {
			if queries > s.Policy.Queries {
				break
			}
			queries++
			switch o := s.Client.Query(ctx, d.Document, d.Code); o.Kind {
			case Accepted:
				return o
			case NotFound:
				doubtful = false
			default:
				last.Err = o.Err
				if o.Unreachable() {
					// The silence has become certain: asking again at once would ask nobody.
					queries++
				}
				continue
			}
		}
		if sends > s.Policy.Resends {
			break
		}
		sends++
		began := s.Now()
		o := s.Client.Submit(ctx, d)
		switch o.Kind {
		case Accepted:
			return o
		case Rejected:
			if o.Response.CodigoMsg != CodeRegistered && !ever && len(s.Lost) == 0 {
				return o
			}
			return s.SettleRefusal(ctx, d.Code, d.Document, o, sent)
		}
		doubtful, last, ever = o.Sent, o, ever || o.Sent
		if o.Sent {
			sent = s.Now()
		}
		if o.Sent || s.Now().Sub(began) > promptly {
			s.Suspect() // silence, or worse: is it this document, or everybody's?
		}
		if o.Unreachable() && s.Now().Sub(began) > certainly {
			break // a login that hangs: to wait as long again helps nobody
		}
	}
	// A query that does not find it proves nothing so soon: MH may still be at work on what it was sent.
	last.Kind, last.Sent = Unknown, ever
	return last
}

// SettleRefusal settles a refusal that may not be MH's last word: "already registered", or one of a document that was sent
// before without an answer, at sent the last time (zero: never). What MH holds under our code is the document; a number that it
// holds under another code is a refusal. Rejected is certain; Unknown means that nobody can tell yet.
func (s *Sender) SettleRefusal(ctx context.Context, code, document string, refused Outcome, sent time.Time) Outcome {
	again := refused.Response.CodigoMsg == CodeRegistered
	why := "MH refuses a document of which an earlier sending had no answer: it may yet accept that"
	if again {
		why = "MH holds the code or number and does not answer the query"
	}
	for range s.Policy.Queries {
		switch o := s.Query(ctx, code, document); o.Kind {
		case Accepted:
			return o
		case NotFound:
			switch {
			case again && strings.Contains(refused.Response.DescripcionMsg, "codigoGeneracion"):
				continue // MH has the code and has it not: it has not made up its mind
			case sent.IsZero() || s.Now().Sub(sent) >= s.Policy.DoubtFor:
				if again {
					s.Taken(code)
				}
				return refused
			}
			return Outcome{Kind: Unknown, Sent: true, Err: fmt.Errorf("%s: %s", why, refused.Response.DescripcionMsg)}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return Outcome{Kind: Unknown, Sent: true, Err: errors.New(why)}
}

// certainly is how long a certain failure (refused, no route) may take to be worth another try at once.
const certainly = 400 * time.Millisecond

// promptly is how long a refused connection takes. One that does not come about takes longer: MH is probed beside the
// other tries, for the probe behind them would make it more than a second.
const promptly = 100 * time.Millisecond

// Query asks MH for a document, once.
func (s *Sender) Query(ctx context.Context, code, document string) Outcome {
	o := s.Client.Query(ctx, document, code)
	if o.Kind != Unknown && len(s.Lost) > 0 {
		s.asked.Store(code, true)
	}
	return o
}

// Decidable is when a query that does not find a document, created at one moment and last sent at another, proves that MH
// does not hold it.
func (s *Sender) Decidable(created, sent time.Time) time.Time {
	at := sent.Add(s.Policy.DoubtFor)
	if restored := s.RestoredUntil(created); restored.After(at) {
		return restored
	}
	return at
}

// lotsOutlive is how long after the restoration of a branch MH may still be at work on what it was sent before.
const lotsOutlive = 15 * time.Minute

// RestoredUntil is until when nothing of a document is sent that was created before the branch was restored: MH may still
// be at work on what it was sent then, and a query does not show that. Zero: it is not to wait.
func (s *Sender) RestoredUntil(created time.Time) (until time.Time) {
	for _, g := range s.Lost {
		if at := g.To.Add(lotsOutlive); !created.After(g.To) && at.After(s.Now()) && g.To.Before(s.Now().Add(time.Hour)) && at.After(until) {
			until = at
		}
	}
	return until
}

// InLostTime tells that a time is one that the store has lived through and lost. MH's clock and the box's may differ by minutes.
func (s *Sender) InLostTime(at time.Time) bool {
	const differ = 2 * time.Minute
	return slices.ContainsFunc(s.Lost, func(g Span) bool {
		return !at.Before(g.From.Add(-differ)) && !at.After(g.To.Add(lotsOutlive))
	})
}

// MayBeFurther tells that MH may hold more of a document than the store knows, because the store was taken back since
// the document was created, and MH was not asked yet by this process.
func (s *Sender) MayBeFurther(code string, created time.Time) bool {
	if !slices.ContainsFunc(s.Lost, func(g Span) bool { return !created.After(g.To) }) {
		return false
	}
	_, asked := s.asked.Load(code)
	return !asked
}
