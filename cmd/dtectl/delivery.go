package main

import (
	"context"
	"errors"
	"net/http"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
)

type deliveryCommand struct {
	List   deliveryList   `cmd:"" help:"List what was given up: mail and archive."`
	Retry  deliveryRetry  `cmd:"" help:"Have what was given up of a document tried again."`
	Forget deliveryForget `cmd:"" help:"Take a document off the list: it was delivered otherwise, or need not be."`
}

type deliveryList struct {
	JSON bool `name:"json" help:"Write one JSON array."`
	adminclient.Flags
}

// failure is what the appliance says of something that was given up.
type failure struct {
	Code  string    `json:"codigoGeneracion"`
	Step  string    `json:"step"`
	To    string    `json:"to"`
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

func givenUp(ctx context.Context, f adminclient.Flags, top *adminclient.Options) ([]failure, error) {
	g, err := f.Open(top)
	if err != nil {
		return nil, err
	}
	var s struct {
		Failures []failure `json:"failures"`
	}
	return s.Failures, g.Ask(ctx, http.MethodGet, "/admin/delivery", nil, nil, &s)
}

// Run prints the first thousand, the oldest first.
func (c *deliveryList) Run(ctx context.Context, top *adminclient.Options) error {
	list, err := givenUp(ctx, c.Flags, top)
	if err != nil {
		return err
	}
	if c.JSON {
		return term.JSON(append([]failure{}, list...))
	}
	if len(list) == 0 {
		term.Printf("nothing was given up\n")
		return nil
	}
	w := tabwriter.NewWriter(term.Out, 0, 0, 2, ' ', 0)
	term.Fprintf(w, "DOCUMENT\tSTEP\tTO\tSINCE\tWHY\n")
	for _, f := range list {
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Code, f.Step, f.To, adminclient.Local(f.Since), f.Error)
	}
	return w.Flush()
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
		if codes = codesOf(list); len(codes) == 0 {
			term.Printf("nothing was given up\n")
			return nil
		}
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
