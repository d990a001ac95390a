package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/certify"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
)

type certifyCommand struct {
	Plan        bool          `help:"Print what would be sent; send nothing."`
	Types       []string      `help:"Only these: 01, …, 18, invalidacion, contingencia." placeholder:"01,03"`
	Report      string        `type:"path" help:"Write progress and refusals: JSON and a page." placeholder:"FILE"`
	PointOfSale int64         `help:"Id of the point of sale that issues; default: the configuration's first."`
	Token       string        `type:"existingfile" help:"A till's token; default: one for this run." placeholder:"FILE"`
	Receivers   string        `type:"existingfile" help:"JSON list of receptors that MH knows." placeholder:"FILE"`
	Seed        uint64        `help:"Seed of the sales; default: from the issuer's NIT and the day."`
	Every       time.Duration `default:"250ms" help:"Least time from one sending to the next."`
	Patience    time.Duration `default:"30m" help:"How long MH or the appliance may fail to answer."`
}

const certifyToken = "dtectl certify"

// Run sends the tests that MH requires before it authorises an issuer, through the running appliance of this box.
func (c *certifyCommand) Run(ctx context.Context, cfg *config.Config) (err error) {
	if cfg.Ambiente != "00" {
		return certify.ErrProduction
	}
	o := certify.Options{Seed: c.Seed, Kinds: c.Types, Pace: c.Every, Patience: c.Patience, Now: cfg.Now,
		Responsible: certify.Person(cfg.Contingency.Responsible),
		Status:      func(ctx context.Context) (*adminclient.Status, error) { return adminclient.AskStatus(ctx, cfg) }}
	for _, k := range c.Types {
		if !slices.Contains(certify.Kinds, k) {
			return fmt.Errorf("--types: %s is not one of %s", k, strings.Join(certify.Kinds, ", "))
		}
	}
	if o.Seed == 0 {
		o.Seed = certify.Seed(cfg.Issuer.NIT, dte.Date(cfg.Now()))
	}
	if o.Receivers, err = readReceivers(c.Receivers); err != nil {
		return err
	}
	if c.Plan {
		return c.plan(ctx, &o)
	}
	end, err := c.open(ctx, cfg, &o)
	if err != nil {
		return err
	}
	defer end()
	bar := term.NewGauge(term.Err)
	o.Show = func(sealed, wanted int, what string) {
		bar.Show(float64(sealed)/float64(max(1, wanted)), fmt.Sprintf("%d of %d sealed, %s", sealed, wanted, what))
	}
	report, err := certify.New(o).Run(ctx)
	bar.Clear()
	if report == nil {
		return err
	}
	return errors.Join(err, printCertified(report), c.write(cfg, report))
}

// open finds the tills' API of this box, and reads --token or makes a token. end revokes a made token.
func (c *certifyCommand) open(ctx context.Context, cfg *config.Config, o *certify.Options) (end func(), err error) {
	if o.URL, o.Client, err = adminclient.OwnListener(cfg, "api"); err != nil {
		return nil, err
	}
	o.Client.Timeout = 2 * time.Minute
	if c.Token != "" {
		token, err := os.ReadFile(c.Token)
		if err != nil {
			return nil, fmt.Errorf("reading the till's token: %w", err)
		}
		o.Token = strings.TrimSpace(string(token))
		return func() {}, o.AwaitToken(ctx, 1)
	}
	point := c.PointOfSale
	if point == 0 && len(cfg.Points) > 0 {
		point = cfg.Points[0].ID
	}
	var id int64
	err = config.EditTokens(cfg.Tokens, func(f *config.TokenFile) error {
		for _, t := range f.Tokens { // revoke the token of a run that was killed
			if t.Name == certifyToken && t.Active() {
				if _, err := f.Revoke(t.ID, adminclient.Who(), cfg.Now()); err != nil {
					return err
				}
			}
		}
		t, token, err := f.Add(cfg, certifyToken, point, config.Permissions, adminclient.Who(), cfg.Now())
		if err == nil {
			id, o.Token = t.ID, token
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making a token for the run: %w", err)
	}
	end = func() {
		err := config.EditTokens(cfg.Tokens, func(f *config.TokenFile) error {
			_, err := f.Revoke(id, adminclient.Who(), cfg.Now())
			return err
		})
		if err != nil {
			term.Fprintf(term.Err, "token %d of this run is not revoked: %v\n", id, err)
		}
	}
	if err := o.AwaitToken(ctx, 100); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

func readReceivers(file string) (list []map[string]any, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading receivers: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: it must be a JSON list of objects, each a receptor of the API: %w", file, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no receiver", file)
	}
	return list, nil
}

// plan prints how many documents of each kind are missing, and the next sale of each kind that needs no other document.
func (c *certifyCommand) plan(ctx context.Context, o *certify.Options) error {
	s, err := o.Status(ctx)
	if err != nil {
		return err
	}
	if s.Ambiente != "00" || s.Authorisation == nil {
		return certify.ErrProduction
	}
	kinds := slices.DeleteFunc(s.Authorisation.Kinds, func(k documents.Sealed) bool {
		return len(o.Kinds) > 0 && !slices.Contains(o.Kinds, k.Kind)
	})
	err = term.Table(term.Out, "KIND\tWANTED\tSEALED\tWAITING\tTO SEND", kinds, func(k documents.Sealed) []any {
		return []any{k.Kind, k.Wanted, k.Sealed, k.Waiting, k.Missing()}
	})
	if err != nil {
		return err
	}
	for _, k := range kinds {
		sale, err := certify.Sample(o.Seed, k.Kind, k.Sealed+k.Waiting+k.Refused, dte.Date(o.Now()), o.Receivers)
		if err != nil {
			return err
		}
		if k.Missing() == 0 || sale == nil {
			continue
		}
		text, err := json.Marshal(sale)
		if err != nil {
			return err
		}
		term.Printf("\nnext  POST %s %s\n", certify.Path(k.Kind), text)
	}
	return nil
}

func printCertified(p *certify.Report) error {
	w := term.Columns(term.Out)
	term.Fprintf(w, "KIND\tSEALED\tWANTED\tWAITING\tREFUSED\n")
	for _, k := range p.Kinds {
		term.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", k.Kind, k.Sealed, k.Wanted, k.Waiting, k.Refused)
	}
	for _, f := range p.Refusals {
		term.Fprintf(w, "refused\t%s by %s\t%d times\t%s %s\t%s\n", f.Kind, f.By, f.Documents, f.Code, f.Field, f.Text)
	}
	for _, s := range p.Stopped {
		term.Fprintf(w, "given up\t%s\t%s\n", s.Kind, s.Why)
	}
	return w.Flush()
}

func (c *certifyCommand) write(cfg *config.Config, p *certify.Report) error {
	if c.Report == "" {
		return nil
	}
	text, err := json.MarshalIndent(struct {
		Issuer string `json:"issuer"`
		NIT    string `json:"nit"`
		*certify.Report
	}{cfg.Issuer.Name, cfg.Issuer.NIT, p}, "", "  ")
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := p.WritePage(&page, cfg.Issuer.Name, cfg.Issuer.NIT); err != nil {
		return err
	}
	beside := strings.TrimSuffix(c.Report, filepath.Ext(c.Report)) + ".html"
	if beside == c.Report {
		return fmt.Errorf("--report %s: the page for printing would overwrite it: name it .json", c.Report)
	}
	return errors.Join(config.WriteFile(c.Report, append(text, '\n')), config.WriteFile(beside, page.Bytes()))
}
