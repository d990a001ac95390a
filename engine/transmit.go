package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// transmit sends a document under the policy and says what became of it (MT1 §3.3): no answer, query; not received,
// send again, at most Resends times. What may have arrived is never sent again before a query denies it.
// doubtful: the document may have been sent before, at sent the last time.
func (e *Engine) transmit(ctx context.Context, s authority.Submission, doubtful bool, sent time.Time) authority.Outcome {
	defer e.traffic.begin()()
	sends, queries, ever := 0, 0, doubtful
	last := authority.Outcome{Kind: authority.Unknown, Sent: doubtful}
	for ctx.Err() == nil {
		if sends+queries > 0 && e.contingency.Current() != nil {
			break // the branch has found meanwhile that nobody is there
		}
		if doubtful {
			if queries > e.policy.Queries {
				break
			}
			queries++
			switch o := e.client.Query(ctx, s.Document, s.Code); o.Kind {
			case authority.Accepted:
				return o
			case authority.NotFound:
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
		if sends > e.policy.Resends {
			break
		}
		sends++
		began := e.now()
		o := e.client.Submit(ctx, s)
		switch o.Kind {
		case authority.Accepted:
			return o
		case authority.Rejected:
			code, err := dte.ParseCode(s.Code)
			if err != nil || o.Response.CodigoMsg != authority.CodeRegistered && !ever && len(e.gaps) == 0 {
				return o
			}
			return e.settleRefusal(ctx, storage.Code(code), s.Document, o, sent)
		}
		doubtful, last, ever = o.Sent, o, ever || o.Sent
		if o.Sent {
			sent = e.now()
		}
		if o.Sent || e.now().Sub(began) > promptly {
			e.contingency.Suspect() // silence, or worse: is it this document, or everybody's?
		}
		if o.Unreachable() && e.now().Sub(began) > certainly {
			break // a login that hangs: to wait as long again helps nobody
		}
	}
	// A query that does not find it proves nothing so soon: MH may still be at work on what it was sent.
	last.Kind, last.Sent = authority.Unknown, ever
	return last
}

// settleRefusal settles a refusal that may not be MH's last word: "already registered", or one of a document that was sent
// before without an answer, at sent the last time (zero: never). What MH holds under our code is the document; a number that it
// holds under another code is a refusal. Rejected is certain; Unknown means that nobody can tell yet.
func (e *Engine) settleRefusal(ctx context.Context, code storage.Code, document string, refused authority.Outcome, sent time.Time) authority.Outcome {
	again := refused.Response.CodigoMsg == authority.CodeRegistered
	why := "MH refuses a document of which an earlier sending had no answer: it may yet accept that"
	if again {
		why = "MH holds the code or number and does not answer the query"
	}
	for range e.policy.Queries {
		switch o := e.query(ctx, code, document); o.Kind {
		case authority.Accepted:
			return o
		case authority.NotFound:
			switch {
			case again && strings.Contains(refused.Response.DescripcionMsg, "codigoGeneracion"):
				continue // MH has the code and has it not: it has not made up its mind
			case sent.IsZero() || e.now().Sub(sent) >= e.contingency.DoubtFor():
				if again {
					e.numberTaken(code)
				}
				return refused
			}
			return authority.Outcome{Kind: authority.Unknown, Sent: true, Err: fmt.Errorf("%s: %s", why, refused.Response.DescripcionMsg)}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return authority.Outcome{Kind: authority.Unknown, Sent: true, Err: errors.New(why)}
}

// certainly is how long a certain failure (refused, no route) may take to be worth another try at once.
const certainly = 400 * time.Millisecond

// promptly is how long a refused connection takes. One that does not come about takes longer: MH is probed beside the
// other tries, for the probe behind them would make it more than a second.
const promptly = 100 * time.Millisecond
