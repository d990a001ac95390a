package main

import (
	"context"
	"time"

	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
)

type queueCommand struct {
	Watch bool `help:"Show it again every second until nothing waits."`
}

// Run asks the running appliance what the branch owes MH, and by when.
func (c *queueCommand) Run(ctx context.Context, top *operator.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	for {
		s, err := operator.AskStatus(ctx, cfg)
		if err != nil {
			return err
		}
		total := s.Owed.Print(screen.Out, cfg.Now())
		if !c.Watch || total == 0 && s.Owed.Contingency == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
