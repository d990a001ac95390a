package main

import (
	"context"
	"fmt"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/start"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/rules"
)

// openShelf puts up what was live, and what the rules folder has that is new.
func openShelf(ctx context.Context, d *daemon, cfg *config.Config, in *start.Inputs, boxKey *recordmac.Key) (*rulestore.Store, error) {
	if d.host.Engine() == "compiler" {
		// An unproven module may do its worst here first, with less to break.
		var err error
		d.tester, err = rules.NewHost(ctx, rules.Options{Engine: "interpreter", Instances: 2, Logger: d.log})
		if err != nil {
			return nil, fmt.Errorf("starting the host of unproven rules: %w", err)
		}
	}
	accept := func(b *rulestore.Book) error { return start.CheckIssuer(cfg, b) }
	shelf := rulestore.New(rulestore.Options{Store: d.store, Host: d.host, Interpreter: d.tester, Keys: in.Rules, Box: boxKey, Types: plugins.Types(), OnFailure: cfg.Rules.OnFailure.Kinds(),
		Ambiente: cfg.Ambiente, Accept: accept, Logger: d.log, Now: cfg.Now,
		Points: len(cfg.Points), Returned: func(b rulestore.StepBack) { recordReturn(d.trail, &b, d.log) }})
	if err := shelf.Load(ctx, in.Shipped); err != nil {
		return nil, err
	}
	return shelf, accept(shelf.Book())
}
