package bundles

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/term"
	"dtegate/rules/bundle"
)

type paramsCommand struct {
	Name   string `arg:"" default:"." help:"Folder in plugins/, with its generation (dte01/v2) or without; default: all."`
	Grep   string `placeholder:"TEXT" help:"Only parameters whose name or source has this text, in any case: iva."`
	Source string `default:"." type:"existingdir" help:"The checkout that holds plugins/."`
}

// Run prints the rates and thresholds of source folders, a line each.
func (c *paramsCommand) Run() error {
	manifests, err := filepath.Glob(filepath.Join(c.Source, "plugins", "*", "*", "manifest.json"))
	if err != nil {
		return err
	}
	manifests = append(manifests, filepath.Join(c.Source, "plugins", "catalogues", "manifest.json"))
	if c.Name != "." {
		names, err := workshop.Generations(c.Source, c.Name)
		if err != nil {
			return err
		}
		manifests = nil
		for _, name := range names {
			manifests = append(manifests, filepath.Join(c.Source, "plugins", name, "manifest.json"))
		}
	}
	w := tabwriter.NewWriter(term.Out, 0, 0, 2, ' ', 0)
	term.Fprintf(w, "RULE\tVERSION\tFROM 00\tFROM 01\tPARAMETER\tVALUE\tSOURCE\n")
	found := 0
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a manifest: %w", err)
		}
		m, err := bundle.ParseManifest(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		folder, err := filepath.Rel(filepath.Join(c.Source, "plugins"), filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, p := range m.Params {
			if !strings.Contains(strings.ToLower(p.Name+"\n"+p.Source), strings.ToLower(c.Grep)) {
				continue
			}
			found++
			term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", folder, m.Version, m.Validity["00"].From,
				m.Validity["01"].From, p.Name, p.Value, p.Source)
		}
		if m.Kind != "catalogue" || c.Grep == "" {
			continue
		}
		texts, err := rateTexts(filepath.Join(filepath.Dir(path), "catalogues.json"), c.Grep)
		if err != nil {
			return err
		}
		for _, text := range texts {
			found++
			term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\tvouchers bear this text: it goes with the rate\n", folder, m.Version,
				m.Validity["00"].From, m.Validity["01"].From, text)
		}
	}
	if found == 0 {
		return fmt.Errorf("no parameter has %q in its name or source", c.Grep)
	}
	return w.Flush()
}

// rateTexts are the taxes of CAT-015 whose names state a number, and have a text or its capitals: iva is Impuesto al
// Valor Agregado.
func rateTexts(path, grep string) (texts []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading catalogues: %w", err)
	}
	const taxes = "CAT-015"
	var file struct {
		Catalogues map[string]struct{ Values map[string]string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	names := file.Catalogues[taxes].Values
	for _, code := range slices.Sorted(maps.Keys(names)) {
		name := names[code]
		capitals := strings.Map(func(c rune) rune {
			if unicode.IsUpper(c) {
				return c
			}
			return -1
		}, name)
		if strings.ContainsAny(name, "0123456789") && strings.Contains(strings.ToLower(name+"\n"+capitals),
			strings.ToLower(grep)) {
			texts = append(texts, taxes+" "+code+" "+name)
		}
	}
	return texts, nil
}
