package main

import (
	"context"
	"fmt"
	"log/slog"

	"dtegate/engine"
	"dtegate/engine/audit"
)

// recordAct puts what a till's token did into the trail. The document's record names the token already, so a failure here
// loses nothing.
func recordAct(trail *audit.Trail, a engine.Act, log *slog.Logger) {
	err := trail.Record(context.Background(), audit.Act{Who: fmt.Sprintf("token %d", a.TokenID), From: a.From, What: a.What, Target: a.Code.String(),
		Detail: a.Detail, Outcome: audit.Done})
	if err != nil {
		log.Error("an act of a till is not in the trail", "token", a.TokenID, "act", a.What, "code", a.Code.String(), "error", err)
	}
}
