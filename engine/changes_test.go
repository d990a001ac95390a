package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// announced expects one document's late results, and no others.
func announced(b *enginetest.Box, code string, estados ...string) {
	b.T.Helper()
	all := b.Changes(0)
	for i, l := range all {
		if l.Code != code || i >= len(estados) || l.Estado != estados[i] {
			b.T.Fatalf("announced are %+v, want %s %v", all, code, estados)
		}
	}
	if len(all) != len(estados) {
		b.T.Fatalf("announced are %+v, want %s %v", all, code, estados)
	}
}

// swallowed sells once; MH does not answer, and the till gives up after a second.
func swallowed(b *enginetest.Box) {
	ctx, stop := context.WithCancel(context.Background())
	b.Chaos(simulator.Chaos{Silence: true})
	time.AfterFunc(time.Second, stop)
	_, err := b.Engine.Issue(ctx, enginetest.Sale("k", 100))
	enginetest.Refused(b.T, err, refusal.CodeUnavailable, "")
}

// Every result that a till did not get with its answer is announced, once.
func TestChanges(t *testing.T) {
	for name, story := range map[string]func(*enginetest.Box){
		"answered at once": func(b *enginetest.Box) {
			b.Issue(enginetest.Sale("k", 100))
			b.Chaos(simulator.Chaos{Reject: 1})
			b.Issue(enginetest.Sale("l", 200))
			announced(b, "")
		},
		"found after a crash": func(b *enginetest.Box) {
			b.Chaos(simulator.Chaos{DelayMS: 500})
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { _, err := b.Engine.Issue(ctx, enginetest.Sale("k", 100)); done <- err }()
			for b.Sim.Received().Documents == 0 {
				time.Sleep(time.Millisecond)
			}
			stop()
			enginetest.Refused(b.T, <-done, refusal.CodeUnavailable, "")
			announced(b, "")
			b.Crash()
			time.Sleep(5 * time.Minute)
			announced(b, b.Issue(enginetest.Sale("k", 100)).Code, record.EstadoProcessed)
		},
		"refused after a crash": func(b *enginetest.Box) {
			swallowed(b)
			// the swallowed sending may still be accepted: the first refusal is not believed
			b.Chaos(simulator.Chaos{Reject: 2})
			b.Crash()
			time.Sleep(5 * time.Minute)
			announced(b, b.Issue(enginetest.Sale("k", 100)).Code, record.EstadoRejected)
		},
		"refused after three minutes without power": func(b *enginetest.Box) {
			swallowed(b)
			b.Close()
			time.Sleep(3 * time.Minute) // the last sending may be two minutes younger than the document
			b.Chaos(simulator.Chaos{Reject: 1})
			b.Start()
			time.Sleep(10 * time.Minute)
			announced(b, b.Issue(enginetest.Sale("k", 100)).Code, record.EstadoProcessed)
		},
		"the normal form held": func(b *enginetest.Box) {
			enginetest.Hesitant(b)
			for code := range b.Sim.Accepted() {
				announced(b, code, record.EstadoProcessed)
			}
		},
		"invalidated later": func(b *enginetest.Box) {
			r := b.Issue(enginetest.Sale("k", 100))
			b.Chaos(simulator.Chaos{LostAnswers: 1})
			_, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, ""))
			enginetest.Refused(b.T, err, refusal.CodeUnavailable, "")
			announced(b, "")
			time.Sleep(5 * time.Minute)
			if now := b.Document(r.Code); now.Estado != record.EstadoInvalidated {
				b.T.Fatalf("the sale is %s", now.Estado)
			}
			announced(b, r.Code, record.EstadoInvalidated)
		},
		"not invalidated after all": func(b *enginetest.Box) {
			r := b.Issue(enginetest.Sale("k", 100))
			b.Chaos(simulator.Chaos{LostRequests: 1, RejectEvents: 1})
			_, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, ""))
			enginetest.Refused(b.T, err, refusal.CodeUnavailable, "")
			time.Sleep(5 * time.Minute)
			if now := b.Document(r.Code); now.Invalidation == nil || now.Invalidation.Estado != record.EstadoRejected {
				b.T.Fatalf("the invalidation is %+v", now.Invalidation)
			}
			announced(b, r.Code, record.EstadoProcessed)
		},
		"refused, then corrected": func(b *enginetest.Box) {
			r := enginetest.Late(b, 1)[0]
			b.Correct(r.Code, 900)
			time.Sleep(20 * time.Minute)
			announced(b, r.Code, record.EstadoRejected, record.EstadoProcessed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				synctest.Wait() // what is signed before a branch has looked for what a crash left is settled as that is
				story(b)
			})
		})
	}
}

// A till of another branch gets nothing, and a waiting till is woken.
func TestChanges_Wait(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Cable.Set(enginetest.Refusing)
		r := b.Issue(enginetest.Sale("k", 100))
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Hour)
		defer stop()
		heard := make(chan string)
		for branch := range 2 {
			go func() {
				c := enginetest.TestCaller(1)
				c.Point.BranchID += int64(branch)
				list, _, err := b.Engine.Documents().Changes(ctx, 0, c)
				if err != nil {
					b.T.Error(err)
				}
				for _, l := range list {
					heard <- l.Code
				}
				heard <- "" // the end of a list
			}()
		}
		time.Sleep(time.Hour)
		b.Cable.Set(enginetest.Plugged)
		asked := time.Now()
		if got := <-heard; got != r.Code || time.Since(asked) > 20*time.Minute {
			b.T.Errorf("heard %q after %v", got, time.Since(asked))
		}
		for range 2 {
			if got := <-heard; got != "" {
				b.T.Errorf("heard %q too", got)
			}
		}
	})
}
