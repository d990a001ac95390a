package rulebook

import (
	"errors"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/rules/bundle"
)

// Layouts are the layouts of documents in bundles, read without running their modules.
type Layouts struct{ fillers []*schema.Filler }

// ReadLayouts reads the layouts of the document bundles, with the catalogues of the latest catalogue bundle. It leaves out a
// layout that cannot be read by itself: the activation of that bundle reports why. Errors: there is no catalogue bundle, or it
// cannot be read.
func ReadLayouts(bundles []*bundle.Bundle) (*Layouts, error) {
	var lists *bundle.Bundle
	for _, b := range bundles {
		if b.Manifest.Kind == "catalogue" && (lists == nil || bundle.Compare(b.Manifest.Version, lists.Manifest.Version) > 0) {
			lists = b
		}
	}
	if lists == nil {
		return nil, ErrNoCatalogue
	}
	catalogues, err := dte.ParseCatalogues(lists.Parts["catalogues.json"])
	if err != nil {
		return nil, err
	}
	l := new(Layouts)
	for _, b := range bundles {
		if b.Manifest.Kind != "document" {
			continue
		}
		out, err := schema.NamedOutputs(b.Parts["overlay.json"])
		if err != nil {
			continue
		}
		if f, err := schema.Compile(b.Parts["schema.json"], b.Parts["overlay.json"], out, catalogues); err == nil {
			l.fillers = append(l.fillers, f)
		}
	}
	if l.fillers == nil {
		return nil, errors.New("no layout can be read")
	}
	return l, nil
}

// CheckIssuer returns what the layouts find wrong with the issuer's own data at a point of sale, like Book.CheckIssuer.
func (l *Layouts) CheckIssuer(emisor dte.Value) []dte.Fault {
	return issuerFaults(l.fillers, emisor)
}

// issuerFaults fills documents that hold nothing but the issuer, and keeps what is wrong with it, each fault once.
func issuerFaults(fillers []*schema.Filler, emisor dte.Value) (faults []dte.Fault) {
	facts := dte.Obj(dte.Member{Name: "emisor", Value: emisor})
	seen := make(map[dte.Fault]bool)
	for _, filler := range fillers {
		_, found := filler.Fill(nil, facts, nil, schema.FillOptions{Catalogues: true, MaxFaults: 500})
		for _, f := range found {
			if strings.HasPrefix(f.Path, "emisor") && !seen[f] {
				seen[f] = true
				faults = append(faults, f)
			}
		}
	}
	return faults
}
