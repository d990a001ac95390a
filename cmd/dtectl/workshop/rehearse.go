package workshop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// Rehearsal makes the documents that bundles would make on a day, without a branch. The caller must call Close.
type Rehearsal struct {
	Rule          *rulestore.Rule // the rule that a branch would pick on the day
	ambiente, day string
	host          *rules.Host
}

// errNotInForce means that no bundle of a type is in force on the day.
var errNotInForce = errors.New("no bundle is in force on that day")

// Rehearse opens the bundles of a type of document for a day, according to their dates in an ambiente. It uses the
// latest catalogues that begin on or before that day.
func Rehearse(ctx context.Context, bundles []*bundle.Bundle, document, ambiente, day string) (r *Rehearsal, err error) {
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return nil, fmt.Errorf("%q is not a day (yyyy-mm-dd)", day)
	}
	// Use the interpreter: compiling a module takes much longer than a few sales.
	host, err := rules.NewHost(ctx, rules.Options{Engine: "interpreter", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, host.Close(ctx))
		}
	}()
	var catalogues *dte.Catalogues
	var begun []*rules.Rule
	since := ""
	for _, b := range bundles {
		w, there := b.Manifest.Validity[ambiente]
		switch {
		case !there || w.From > day:
		case b.Manifest.Kind == "catalogue" && w.From >= since:
			catalogues, err = dte.ParseCatalogues(b.Parts["catalogues.json"])
			since = w.From
		case b.Manifest.Kind == "document" && b.Manifest.Document == document:
			var loaded *rules.Rule
			loaded, err = host.LoadBundle(ctx, b)
			begun = append(begun, loaded)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", b.Manifest.Name, b.Manifest.Version, err)
		}
	}
	if catalogues == nil {
		return nil, rulestore.ErrNoCatalogue
	}
	picked, err := rules.NewGeneration(begun...).Pick("document", document, ambiente, day)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotInForce, err)
	}
	rule, err := rulestore.Compile(picked, catalogues)
	return &Rehearsal{rule, ambiente, day, host}, err
}

// Close ends the engine.
func (r *Rehearsal) Close(ctx context.Context) error { return r.host.Close(ctx) }

// Document returns the document of a sale, as if the sale were the first of a point of sale, at noon. facts are the
// facts in the till's request; the faults say why the sale is refused.
func (r *Rehearsal) Document(ctx context.Context, issuer record.Issuer, p record.Point, facts dte.Value) ([]byte,
	[]dte.Fault, error) {
	code, err := dte.NewCode(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	control, err := dte.ControlNumber(r.Rule.Document, p.Establishment, p.PointOfSale, 1)
	if err != nil {
		return nil, nil, err
	}
	facts = facts.With("emisor", record.Emisor(issuer, p)).With("identificacion", dte.Texts("ambiente", r.ambiente,
		"codigoGeneracion", code.String(), "fecEmi", r.day, "horEmi", "12:00:00", "tipoMoneda", "USD",
		"numeroControl", control).Set(record.NormalMarks...))
	return r.Rule.Remake(ctx, facts, schema.FillOptions{Catalogues: true})
}
