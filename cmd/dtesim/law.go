package main

import (
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strings"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/rules/bundle"
)

// maxBundle is the largest rule bundle that is read, in bytes.
const maxBundle = 32 << 20

// lawsOf reads the law from a rule bundle: rates, thresholds, and codes of catalogues. The arithmetic stays the
// simulator's own: a document with wrong arithmetic is refused, a document with a new rate is not. The bundle needs no
// signature.
func lawsOf(data []byte, ambiente string) ([]simulator.Law, string, error) {
	b, err := bundle.Inspect(data)
	if err != nil {
		return nil, "", err
	}
	m := &b.Manifest
	name := m.Name + " " + m.Version
	window, there := m.Validity[ambiente]
	if !there {
		return nil, name, fmt.Errorf("%s has no dates for the ambiente %s", name, ambiente)
	}
	law := simulator.Law{From: window.From}
	if m.Kind == "catalogue" {
		law.Codes, err = codes(b.Parts["catalogues.json"])
		return []simulator.Law{law}, name, err
	}
	if m.Kind == "document" {
		law.Layout, law.Version = b.Parts["schema.json"], m.Schema
	}
	law.Document, law.PerGallon, law.PerUnit = m.Document, make(map[string]*big.Rat), make(map[string]*big.Rat)
	for _, p := range m.Params {
		value, ok := new(big.Rat).SetString(p.Value)
		if !ok {
			return nil, name, fmt.Errorf("%s: %s is %q", name, p.Name, p.Value)
		}
		switch p.Name {
		case "ivaRate":
			law.VAT = value
		case "ivaReteRate", "ivaPerciRate":
			law.Withheld = value
		case "rentaRate":
			law.Income = value
		case "reteThreshold":
			law.LeastBase = value
		case "identificationThreshold":
			law.Identification = value
		case "fovialRate":
			law.PerGallon["D1"] = value
		case "cotransRate":
			law.PerGallon["C8"] = value
		default: // the name of a new tax in USD a unit ends in its code of CAT-015: "levyB1"
			if code, ok := strings.CutPrefix(p.Name, "levy"); ok {
				law.PerUnit[code] = value
			}
		}
	}
	return []simulator.Law{law}, name, nil
}

// readLaws reads rule bundles and enacts their laws.
func readLaws(s *simulator.Simulator, paths []string, ambiente string, log *slog.Logger) error {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading rule bundle: %w", err)
		}
		laws, name, err := lawsOf(data, ambiente)
		if err == nil {
			err = s.Enact(laws...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		log.Info("a law", "bundle", name, "from", laws[0].From)
	}
	return nil
}

// takeLaw answers POST /law. The body is a rule bundle; its law applies from its first day on.
func takeLaw(s *simulator.Simulator, ambiente string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBundle))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		laws, name, err := lawsOf(data, ambiente)
		if err == nil {
			err = s.Enact(laws...)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%s is law from %s on\n", name, laws[0].From)
	}
}

// fileList is a flag that may be given several times.
type fileList []string

func (l *fileList) String() string { return strings.Join(*l, ",") }

// Set adds one file, or several files separated by spaces.
func (l *fileList) Set(text string) error {
	*l = slices.Concat(*l, strings.Fields(text))
	return nil
}
