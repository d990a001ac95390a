package main

import (
	"context"
	"net/http"

	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
)

type contingencyCommand struct {
	Start  contingencyStart  `cmd:"" help:"Declare the branch in contingency; it lasts until end."`
	End    contingencyEnd    `cmd:"" help:"Take the declaration back; MH's own answer ends the contingency."`
	Report contingencyReport `cmd:"" help:"Prepare the technical report that MH wants of a contingency of more than three days, or note that MH has it."`
}

type contingencyStart struct {
	Cause  int    `required:"" help:"CAT-005: 1 MH's system, 2 our system, 3 our Internet, 4 power, 5 other."`
	Reason string `required:"" help:"Why, 1 to 500 characters. With cause 5 MH gets it."`
}

// Run declares a contingency.
func (c *contingencyStart) Run(ctx context.Context, top *operator.Options) error {
	return administer(ctx, top, http.MethodPost, map[string]any{"cause": c.Cause, "reason": c.Reason})
}

type contingencyEnd struct{}

// Run takes the declaration back.
func (*contingencyEnd) Run(ctx context.Context, top *operator.Options) error {
	return administer(ctx, top, http.MethodDelete, nil)
}

func administer(ctx context.Context, top *operator.Options, method string, body any) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	var s operator.Status
	if err := operator.AskOwn(ctx, cfg, method, "/admin/contingency", body, &s); err != nil {
		return err
	}
	s.Owed.Print(screen.Out, cfg.Now())
	return nil
}
