package authority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// How often the sender tries a document (MT1 §3.3: 8 s, then query, at most two resends).
const (
	resends = 2
	Queries = resends + 1 // one after each sending; Transmit may make one more
)

// Span is a period whose records the store has lost, because the branch was restored from an earlier backup.
type Span struct{ From, To time.Time }

// Sender sends documents and finds the result of each: accepted, rejected, or unknown. A document that MH may have
// received is sent again only after a query does not find it. It is safe for concurrent use.
type Sender struct {
	Client   *Client
	Lost     []Span // may be nil
	Now      func() time.Time
	DoubtFor time.Duration // how long MH may work on a sent document; until then NotFound proves nothing
	// Away reports whether the branch has found MH unreachable. Suspect is called if MH may be unreachable.
	Away    func() bool
	Suspect func()
	// Taken is called with a document's code and MH's words if MH has the document's number under another code.
	Taken func(code, words string)

	asked sync.Map // codes for which this process has queried MH
}

// Transmit sends a document and returns the result (MT1 §3.3). Without an answer, Transmit queries MH. If MH does not
// have the document, Transmit sends it again, at most twice. doubtful means that the document may have been sent
// before, at the latest at the time sent.
func (s *Sender) Transmit(ctx context.Context, d Submission, doubtful bool, sent time.Time) Outcome {
	sends, queries, ever := 0, 0, doubtful
	last := Outcome{Kind: Unknown, Sent: doubtful}
	for ctx.Err() == nil {
		if sends+queries > 0 && s.Away() {
			break // the branch has meanwhile found MH unreachable
		}
		if doubtful {
			if queries > Queries {
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
					// MH cannot be reached. Count this query as two, because another query right now would fail too.
					queries++
				}
				continue
			}
		}
		if sends > resends {
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
			s.Suspect() // MH may be unreachable for every document
		}
		if o.Unreachable() && s.Now().Sub(began) > certainly {
			break // another try would take as long
		}
	}
	// So soon after the sending, NotFound proves nothing: MH may still work on the document.
	last.Kind, last.Sent = Unknown, ever
	return last
}

// SettleRefusal finds out whether a refusal is final. It may not be final if MH answers "already registered", or if an
// earlier sending had no answer; sent is the time of the last such sending, or zero. If MH has our code, the outcome is
// Accepted. If MH has only the number, under another code, the outcome is Rejected, and final. Unknown means that the
// result cannot be known yet.
func (s *Sender) SettleRefusal(ctx context.Context, code, document string, refused Outcome, sent time.Time) Outcome {
	again := refused.Response.CodigoMsg == CodeRegistered
	why := "MH refuses a document, and may still accept an earlier sending that had no answer"
	if again {
		why = "MH holds the code or number and does not answer the query"
	}
	for range Queries {
		switch o := s.Query(ctx, code, document); o.Kind {
		case Accepted:
			return o
		case NotFound:
			switch {
			case again && strings.Contains(refused.Response.DescripcionMsg, "codigoGeneracion"):
				continue // MH's two answers about the code contradict each other
			case sent.IsZero() || s.Now().Sub(sent) >= s.DoubtFor:
				if again {
					s.Taken(code, refused.Response.DescripcionMsg)
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

// certainly is how long an attempt that MH certainly did not receive (connection refused, no route) may take. After a
// longer attempt of this kind, the sender does not try again at once.
const certainly = 400 * time.Millisecond

// promptly is the longest time in which a connection is refused. After a longer failure the sender probes MH in
// parallel with the other tries: a later probe would delay the sale beyond a second.
const promptly = 100 * time.Millisecond

// Query asks MH for a document, once. In a restored branch it remembers that MH has answered: see MayBeFurther.
func (s *Sender) Query(ctx context.Context, code, document string) Outcome {
	o := s.Client.Query(ctx, document, code)
	if o.Kind != Unknown && len(s.Lost) > 0 {
		s.asked.Store(code, true)
	}
	return o
}

// Decidable returns the time from which NotFound proves that MH lacks a document created and last sent at these times.
func (s *Sender) Decidable(created, sent time.Time) time.Time {
	at := sent.Add(s.DoubtFor)
	if restored := s.RestoredUntil(created); restored.After(at) {
		return restored
	}
	return at
}

// lotsOutlive is how long after a branch's restoration MH may still work on lots from before the restoration.
const lotsOutlive = 15 * time.Minute

// RestoredUntil returns when a document that is older than a restoration may be sent again; zero: now. Until then MH
// may still work on an earlier sending, and no query shows that sending.
func (s *Sender) RestoredUntil(created time.Time) (until time.Time) {
	for _, g := range s.Lost {
		if at := g.To.Add(lotsOutlive); !created.After(g.To) && at.After(s.Now()) &&
			g.To.Before(s.Now().Add(time.Hour)) && at.After(until) {
			until = at
		}
	}
	return until
}

// InLostTime reports whether the store has lost what happened at a time. It adds a margin, because the clocks of MH and
// the box may differ by two minutes, and MH may work on a lot for 15 minutes.
func (s *Sender) InLostTime(at time.Time) bool {
	const differ = 2 * time.Minute
	return slices.ContainsFunc(s.Lost, func(g Span) bool {
		return !at.Before(g.From.Add(-differ)) && !at.After(g.To.Add(lotsOutlive))
	})
}

// MayBeFurther reports whether MH may know more about a document than the store: the document is older than a
// restoration of the store, and this process has not asked MH for it yet.
func (s *Sender) MayBeFurther(code string, created time.Time) bool {
	if !slices.ContainsFunc(s.Lost, func(g Span) bool { return !created.After(g.To) }) {
		return false
	}
	_, asked := s.asked.Load(code)
	return !asked
}
