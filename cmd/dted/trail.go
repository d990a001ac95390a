package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/rulestore"
)

// actReturn names a return that the branch made by itself from a rule bundle.
const actReturn = "rules.return"

// recordReturn puts a return of the branch itself into the trail, unless it is there. It is asked at every start too, since
// the appliance may have ended between the return and its act. A nil return is none.
func recordReturn(trail *audit.Trail, b *rulestore.StepBack, log *slog.Logger) {
	if b == nil {
		return
	}
	act := audit.Act{Who: b.Who, From: "the branch", What: actReturn, Target: b.To.Name + " " + b.To.Version,
		Detail: b.Reason + ", " + b.At.UTC().Format(time.RFC3339), Outcome: audit.Done}
	last, err := trail.Last(func(a *audit.Act) bool { return a.What == actReturn })
	if err == nil && (last == nil || last.Detail != act.Detail) {
		err = trail.Record(context.Background(), act)
	}
	if err != nil {
		log.Error("a return to an earlier rule is not in the trail", "error", err)
	}
}

// recordRepairs puts repairs of the store into the trail that dtectl could not: it was cut short, or the store was to be reconciled.
func recordRepairs(ctx context.Context, trail *audit.Trail, log *slog.Logger) {
	if err := trail.RecordRepairs(ctx, "dtectl recover", "the branch"); err != nil {
		log.Error("a repair of the store is not in the trail; the next start tries again", "error", err)
	}
}

// recordAct puts what a till's token did into the trail. The document's record names the token already, so a failure here
// loses nothing.
func recordAct(trail *audit.Trail, a engine.Act, log *slog.Logger) {
	err := trail.Record(context.Background(), audit.Act{Who: fmt.Sprintf("token %d", a.TokenID), From: a.From, What: a.What, Target: a.Code.String(),
		Detail: a.Detail, Outcome: audit.Done})
	if err != nil {
		log.Error("an act of a till is not in the trail", "token", a.TokenID, "act", a.What, "code", a.Code.String(), "error", err)
	}
}
