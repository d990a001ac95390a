package bundles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

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
			term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", folder, m.Version, m.Validity["00"].From, m.Validity["01"].From, p.Name, p.Value, p.Source)
		}
	}
	if found == 0 {
		return fmt.Errorf("no parameter has %q in its name or source", c.Grep)
	}
	return w.Flush()
}
