package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"text/tabwriter"
	"time"

	"dtegate/cmd/screen"
)

type deliveryCommand struct {
	List   deliveryList   `cmd:"" help:"List what was given up: mail and archive."`
	Retry  deliveryRetry  `cmd:"" help:"Have what was given up of a document tried again."`
	Forget deliveryForget `cmd:"" help:"Take a document off the list: it was delivered otherwise, or need not be."`
}

type deliveryList struct{ gatewayFlags }

// failure is what the appliance says of something that was given up.
type failure struct {
	Code  string    `json:"codigoGeneracion"`
	Step  string    `json:"step"`
	To    string    `json:"to"`
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

func (f gatewayFlags) givenUp(ctx context.Context, top *cli) ([]failure, error) {
	g, err := f.open(top)
	if err != nil {
		return nil, err
	}
	var s struct {
		Failures []failure `json:"failures"`
	}
	return s.Failures, g.ask(ctx, http.MethodGet, "/admin/delivery", nil, nil, &s)
}

// Run prints the first thousand, the oldest first.
func (c *deliveryList) Run(ctx context.Context, top *cli) error {
	list, err := c.givenUp(ctx, top)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		screen.Printf("nothing was given up\n")
		return nil
	}
	w := tabwriter.NewWriter(screen.Out, 0, 0, 2, ' ', 0)
	screen.Fprintf(w, "DOCUMENT\tSTEP\tTO\tSINCE\tWHY\n")
	for _, f := range list {
		screen.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Code, f.Step, f.To, local(f.Since), f.Error)
	}
	return w.Flush()
}

type deliveryRetry struct {
	Codes []string `arg:"" optional:"" help:"codigoGeneracion of each document."`
	All   bool     `help:"What list shows."`
	gatewayFlags
}

// Run fails when nothing was given up of the documents that are named.
func (c *deliveryRetry) Run(ctx context.Context, top *cli) error {
	if (len(c.Codes) == 0) != c.All {
		return errors.New("name documents, or all of them with --all")
	}
	codes := c.Codes
	if c.All {
		list, err := c.givenUp(ctx, top)
		if err != nil {
			return err
		}
		if codes = codesOf(list); len(codes) == 0 {
			screen.Printf("nothing was given up\n")
			return nil
		}
	}
	return c.actOnDeliveries(ctx, top, "retry", codes, false)
}

type deliveryForget struct {
	Codes []string `arg:"" help:"codigoGeneracion of each document."`
	gatewayFlags
}

// Run fails as that of retry does.
func (c *deliveryForget) Run(ctx context.Context, top *cli) error {
	return c.actOnDeliveries(ctx, top, "forget", c.Codes, false)
}

func codesOf(list []failure) (codes []string) {
	seen := make(map[string]bool)
	for _, f := range list {
		if !seen[f.Code] {
			codes = append(codes, f.Code)
		}
		seen[f.Code] = true
	}
	return codes
}

// actOnDeliveries has the appliance do something with what was given up of documents; archive reaches what it has archived too.
func (f gatewayFlags) actOnDeliveries(ctx context.Context, top *cli, do string, codes []string, archive bool) error {
	g, err := f.open(top)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"codes": codes, "archive": archive})
	if err != nil {
		return err
	}
	var done struct {
		Retried   int `json:"retried"`
		Forgotten int `json:"forgotten"`
	}
	if err := g.ask(ctx, http.MethodPost, "/admin/delivery/"+do, nil, body, &done); err != nil {
		return err
	}
	switch {
	case done.Retried+done.Forgotten == 0:
		return errors.New("nothing was given up of these documents: nothing was done")
	case do == "retry":
		screen.Printf("%d set due again\n", done.Retried)
	default:
		screen.Printf("%d forgotten\n", done.Forgotten)
	}
	return nil
}
