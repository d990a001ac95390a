package main

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/outbox"
	"dtegate/gateway/adminapi"
)

type deliveryCommand struct {
	List   deliveryList   `cmd:"" help:"List what was given up: mail and archive."`
	Retry  deliveryRetry  `cmd:"" help:"Have what was given up of a document tried again."`
	Forget deliveryForget `cmd:"" help:"Take a document off the list: it was delivered otherwise, or need not be."`
}

type deliveryList struct {
	JSON bool `help:"Write one JSON array."`
	adminclient.Flags
}

func givenUp(ctx context.Context, f adminclient.Flags, top *adminclient.Options) ([]outbox.Failure, error) {
	g, err := f.Open(top)
	if err != nil {
		return nil, err
	}
	var s adminapi.GivenUp
	return s.Failures, g.Ask(ctx, http.MethodGet, "/admin/delivery", nil, nil, &s)
}

// Run prints the first thousand, the oldest first.
func (c *deliveryList) Run(ctx context.Context, top *adminclient.Options) error {
	list, err := givenUp(ctx, c.Flags, top)
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
	All   bool     `help:"What list shows."`
	adminclient.Flags
}

// Run fails when nothing was given up of the documents that are named.
func (c *deliveryRetry) Run(ctx context.Context, top *adminclient.Options) error {
	if (len(c.Codes) == 0) != c.All {
		return errors.New("name documents, or all of them with --all")
	}
	codes := c.Codes
	if c.All {
		list, err := givenUp(ctx, c.Flags, top)
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
	return adminclient.SettleDeliveries(ctx, c.Flags, top, "retry", codes, false)
}

type deliveryForget struct {
	Codes []string `arg:"" help:"codigoGeneracion of each document."`
	adminclient.Flags
}

// Run fails as that of retry does.
func (c *deliveryForget) Run(ctx context.Context, top *adminclient.Options) error {
	return adminclient.SettleDeliveries(ctx, c.Flags, top, "forget", c.Codes, false)
}
