package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/fairqueue"
	"dtegate/engine/outbox"
	"dtegate/gateway/adminapi"
)

type queueCommand struct {
	Watch bool `help:"Show it again every second until nothing waits." xor:"form"`
	JSON  bool `help:"Write one JSON object." xor:"form"`
}

// Run asks the running appliance what the branch owes MH, and by when.
func (c *queueCommand) Run(ctx context.Context, cfg *config.Config) error {
	for {
		if c.JSON {
			var s struct {
				Owed json.RawMessage `json:"owed"`
			}
			if err := adminclient.AskOwn(ctx, cfg, http.MethodGet, "/status", nil, &s); err != nil {
				return err
			}
			return term.JSON(s.Owed)
		}
		s, err := adminclient.AskStatus(ctx, cfg)
		if err != nil {
			return err
		}
		total := adminclient.PrintOwed(term.Out, &s.Owed, cfg.Now())
		if !c.Watch || total == 0 && s.Owed.Contingency == nil {
			return nil
		}
		if fairqueue.Sleep(ctx, time.Second) != nil {
			return nil
		}
	}
}

type deliveryCommand struct {
	List   deliveryList   `cmd:"" help:"List the deliveries by mail and to the archive that were given up."`
	Retry  deliveryRetry  `cmd:"" help:"Retry the given-up deliveries of documents."`
	Forget deliveryForget `cmd:"" help:"Remove documents from the list: nothing more is delivered."`
}

type deliveryList struct {
	JSON bool `help:"Write one JSON array."`
	adminclient.Flags
}

func givenUp(ctx context.Context, g *adminclient.Gateway) ([]outbox.Failure, error) {
	var s adminapi.GivenUp
	err := g.Ask(ctx, http.MethodGet, "/admin/delivery", nil, nil, &s)
	return s.Failures, err
}

// Run prints the first thousand deliveries that were given up, the oldest first.
func (c *deliveryList) Run(ctx context.Context, g *adminclient.Gateway) error {
	list, err := givenUp(ctx, g)
	if err != nil {
		return err
	}
	if len(list) == 0 && !c.JSON {
		term.Printf("nothing was given up\n")
		return nil
	}
	return term.List(c.JSON, "DOCUMENT\tSTEP\tTO\tSINCE\tWHY", list, func(f outbox.Failure) []any {
		return []any{f.Code, f.Step, f.To, adminclient.Local(f.Since), f.Error}
	})
}

type deliveryRetry struct {
	Codes []string `arg:"" optional:"" help:"codigoGeneracion of each document."`
	All   bool     `help:"All that list shows."`
	adminclient.Flags
}

// Run fails if no delivery of the named documents had been given up.
func (c *deliveryRetry) Run(ctx context.Context, g *adminclient.Gateway) error {
	if (len(c.Codes) == 0) != c.All {
		return errors.New("name documents, or all of them with --all")
	}
	codes := c.Codes
	if c.All {
		list, err := givenUp(ctx, g)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			term.Printf("nothing was given up\n")
			return nil
		}
		for _, f := range list {
			codes = append(codes, f.Code)
		}
		codes = slices.Compact(slices.Sorted(slices.Values(codes)))
	}
	return g.SettleDeliveries(ctx, "retry", codes, false)
}

type deliveryForget struct {
	Codes []string `arg:"" help:"codigoGeneracion of each document."`
	adminclient.Flags
}

// Run fails if no delivery of the named documents had been given up.
func (c *deliveryForget) Run(ctx context.Context, g *adminclient.Gateway) error {
	return g.SettleDeliveries(ctx, "forget", c.Codes, false)
}
