package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dtegate/cmd/screen"
)

type rulesShadowCommand struct {
	Start rulesShadowStart `cmd:"" default:"withargs" help:"Begin, instead of any other."`
	Show  rulesShadowShow  `cmd:"" help:"Show what differed."`
	Stop  rulesShadowStop  `cmd:"" help:"End it."`
}

type rulesShadowStart struct {
	File      string        `arg:"" type:"existingfile" help:"Signed bundle; its version does not matter."`
	Documents int           `default:"1000" help:"End after so many sales of its type."`
	For       time.Duration `default:"24h" help:"End after this time."`
	gatewayFlags
}

// Run starts a shadow; tills never wait for it.
func (c *rulesShadowStart) Run(ctx context.Context, top *cli) error {
	b, err := c.open(top)
	if err != nil {
		return err
	}
	data, err := readNamed(c.File)
	if err != nil {
		return fmt.Errorf("reading rule bundle: %w", err)
	}
	var a activation
	query := url.Values{"documents": {strconv.Itoa(c.Documents)}, "for": {c.For.String()}}
	if err := b.ask(ctx, http.MethodPost, "/admin/rules/shadow", query, data, &a); err != nil {
		return err
	}
	return a.print(screen.Out)
}

type rulesShadowShow struct{ gatewayFlags }

// Run prints the differences.
func (c *rulesShadowShow) Run(ctx context.Context, top *cli) error {
	return showShadow(ctx, top, c.gatewayFlags, http.MethodGet)
}

type rulesShadowStop struct{ gatewayFlags }

// Run ends the shadow and prints the differences.
func (c *rulesShadowStop) Run(ctx context.Context, top *cli) error {
	return showShadow(ctx, top, c.gatewayFlags, http.MethodDelete)
}

func showShadow(ctx context.Context, top *cli, f gatewayFlags, method string) error {
	b, err := f.open(top)
	if err != nil {
		return err
	}
	var s struct {
		Rule      ruleRef        `json:"rule"`
		Running   bool           `json:"running"`
		Until     time.Time      `json:"until"`
		Documents int            `json:"documents"`
		Most      int            `json:"most"`
		Dropped   int            `json:"dropped"`
		Results   map[string]int `json:"results"`
		Differing []*comparison  `json:"differing"`
	}
	if err := b.ask(ctx, method, "/admin/rules/shadow", nil, nil, &s); err != nil {
		return err
	}
	word := "over"
	if s.Running {
		word = "runs until " + local(s.Until)
	}
	screen.Printf("%s %s: %d of %d sales, %d too fast for it; %s\n", s.Rule.Name, s.Rule.Version, s.Documents, s.Most, s.Dropped, word)
	printCounts(s.Results)
	for _, c := range s.Differing {
		c.print(screen.Out)
	}
	return nil
}
