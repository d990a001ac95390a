package bundles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/gateway/form"
	"dtegate/rules/bundle"
)

type tryCommand struct {
	Files []string `arg:"" type:"existingfile" help:"Bundles, signed by anybody; rules.folder supplies the rest."`
	At    string   `required:"" placeholder:"yyyy-mm-dd" help:"The day."`
	Sale  string   `type:"existingfile" placeholder:"FILE" help:"A till's request; default: the bundle's own cases."`
	Type  string   `placeholder:"01" help:"Type of the sale; default: of the first bundle that computes one."`
}

// Run shows the documents that the bundles would make on a day. Nothing is sent, numbered, signed or stored.
func (c *tryCommand) Run(ctx context.Context, cfg *config.Config) error {
	bundles, document, err := c.bundles(cfg)
	if err != nil {
		return err
	}
	if document == "" {
		return errors.New("none of the bundles computes a document: name its type with --type")
	}
	r, err := workshop.Rehearse(ctx, bundles, document, cfg.Ambiente, c.At)
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	rule := r.Rule.Ref
	sales, err := c.sales(cfg, document, bundles, rule.Digest)
	if err != nil {
		return err
	}
	term.Printf("%s %s (%.12s) on %s, ambiente %s\n", rule.Name, rule.Version, rule.Digest, c.At,
		cfg.Ambiente)
	for _, s := range sales {
		made, faults, err := r.Document(ctx, cfg.Seller(), cfg.PointsOfSale()[0], s.facts)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if len(faults) > 0 {
			return fmt.Errorf("%s: it is refused: %w (%d faults)", s.name, faults[0], len(faults))
		}
		var shown bytes.Buffer
		if err := json.Indent(&shown, made, "", "  "); err != nil {
			return err
		}
		term.Fprintf(term.Out, "%s\n", s.name)
		if _, err := term.Out.Write(append(shown.Bytes(), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// bundles returns the bundles of the branch's rules folder, followed by the bundles on the command line. Of two bundles
// that begin on one day, the later in the list is used. document is --type, or else the type of the first document
// bundle on the command line.
func (c *tryCommand) bundles(cfg *config.Config) (list []*bundle.Bundle, document string, err error) {
	installed, err := filepath.Glob(filepath.Join(cfg.Rules.Folder, "*"+bundle.Extension))
	if err != nil {
		return nil, "", err
	}
	document = c.Type
	seen := make(map[string]bool)
	files, err := readBundles(append(slices.Clone(c.Files), installed...))
	if err != nil {
		return nil, "", err
	}
	for i, f := range files {
		b := f.bundle
		name := fmt.Sprint(b.Manifest.Name, b.Manifest.Schema, b.Manifest.Version)
		if seen[name] {
			continue
		}
		seen[name] = true
		if i < len(c.Files) && b.Manifest.Kind == "document" {
			document = cmp.Or(document, b.Manifest.Document)
		}
		list = append([]*bundle.Bundle{b}, list...)
	}
	return list, document, nil
}

// tried is a sale, and the name of its file or golden case.
type tried struct {
	name  string
	facts dte.Value
}

func (c *tryCommand) sales(cfg *config.Config, document string, bundles []*bundle.Bundle, digest string) (list []tried,
	err error) {
	if c.Sale == "" {
		return casesOf(bundles, digest)
	}
	data, err := os.ReadFile(c.Sale)
	if err != nil {
		return nil, fmt.Errorf("reading the sale: %w", err)
	}
	body, err := dte.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.Sale, err)
	}
	t := record.TypeOf(document)
	for _, b := range bundles {
		if own, err := bundle.ParseType(document, b.Parts); err == nil && own != nil &&
			b.Manifest.Document == document {
			t = own
			break
		}
	}
	if t.Form == nil {
		return nil, fmt.Errorf("no till asks for documents of type %s: leave --sale out, and the bundle's own cases "+
			"are tried", document)
	}
	filled := form.New(t).Fill(body, cfg.Payments)
	switch {
	case len(filled.Faults) > 0:
		return nil, fmt.Errorf("%s: %s: %w (%d faults)", c.Sale, filled.Faults[0].Path, filled.Faults[0],
			len(filled.Faults))
	case filled.Origin != nil:
		return nil, fmt.Errorf("a %s is computed from its original: rehearse it in a demonstration of that day, make "+
			"run DAY=%s", document, c.At)
	}
	return []tried{{c.Sale, filled.Facts}}, nil
}

// casesOf returns those golden cases of the bundle with this digest that expect a document.
func casesOf(bundles []*bundle.Bundle, digest string) (list []tried, err error) {
	for _, b := range bundles {
		if b.Digest != digest {
			continue
		}
		for _, name := range b.Cases() {
			golden, err := dte.Parse(b.Parts[name])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if golden.Get("document").Exists() {
				list = append(list, tried{name, golden.Get("facts")})
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the bundle has no case that makes a document: name a sale with --sale")
	}
	return list, nil
}
