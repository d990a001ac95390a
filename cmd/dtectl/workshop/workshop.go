// Package workshop builds a rule's bundle from its source folder, and tests it by the steps of a branch's activation.
package workshop

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// Workshop runs rules in both engines of a branch, the compiler and the interpreter. The caller must call Close.
type Workshop struct {
	// IgnoreFuel gives rules the host's own limit of fuel, to measure how much fuel they need.
	IgnoreFuel bool

	source     plugins.Source
	hosts      [2]*rules.Host
	catalogues []dated // in the order of their first days
	key        bundle.Key
	signer     bundle.Signer // signs bundles for tests
}

// Open returns the workshop of a checkout; root is the folder that contains plugins/. module is the file of a compiled
// module that replaces the one compiled from rule.go, or "".
func Open(ctx context.Context, root, module string) (*Workshop, error) {
	w := &Workshop{source: plugins.Source{Root: root, Build: filepath.Join(root, "var", "build"), Module: module}}
	if err := os.MkdirAll(w.source.Build, 0o755); err != nil {
		return nil, fmt.Errorf("preparing build folder: %w", err)
	}
	var err error
	if w.catalogues, err = readCatalogues(root); err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for tests: %w", err)
	}
	w.key, w.signer = bundle.Key{ID: "test", Public: public}, bundle.Signer{ID: "test", Private: private}
	for i, name := range []string{"compiler", "interpreter"} {
		if w.hosts[i], err = rules.NewHost(ctx, rules.Options{Engine: name, Logger: slog.New(slog.DiscardHandler),
			CacheDir: filepath.Join(w.source.Build, "cache")}); err != nil {
			return nil, errors.Join(err, w.Close(ctx))
		}
	}
	return w, nil
}

// dated is one version of the catalogues: the folder plugins/catalogues, or a folder below it for a future day.
type dated struct {
	lists    *dte.Catalogues
	validity map[string]bundle.Window
}

func readCatalogues(root string) (all []dated, err error) {
	names, err := Generations(root, "catalogues")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, "plugins", name, "catalogues.json"))
		if err != nil {
			return nil, fmt.Errorf("reading catalogues: %w", err)
		}
		lists, err := dte.ParseCatalogues(data)
		if err != nil {
			return nil, fmt.Errorf("plugins/%s: %w", name, err)
		}
		m, err := Manifest(root, name)
		if err != nil {
			return nil, err
		}
		all = append(all, dated{lists, m.Validity})
	}
	return all, nil
}

// cataloguesFor returns the catalogues in force on the bundle's first day in production, or else in the test ambiente.
func (w *Workshop) cataloguesFor(m *bundle.Manifest) *dte.Catalogues {
	ambiente := "01"
	if _, there := m.Validity[ambiente]; !there {
		ambiente = "00"
	}
	best := w.catalogues[0]
	for _, c := range w.catalogues[1:] {
		if from := c.validity[ambiente].From; from != "" && from <= m.Validity[ambiente].From &&
			from >= best.validity[ambiente].From {
			best = c
		}
	}
	return best.lists
}

func (w *Workshop) Close(ctx context.Context) (err error) {
	for _, h := range w.hosts {
		if h != nil {
			err = errors.Join(err, h.Close(ctx))
		}
	}
	return err
}

// Manifest reads the manifest of a bundle's source.
func Manifest(root, name string) (m bundle.Manifest, err error) {
	text, err := os.ReadFile(filepath.Join(root, "plugins", name, "manifest.json"))
	if err == nil {
		m, err = bundle.ParseManifest(text)
	}
	if err != nil {
		err = fmt.Errorf("plugins/%s: %w", name, err)
	}
	return m, err
}

// Generations returns the folders of bundles below a checkout's plugins/. name selects one generation (dte01/v2), all
// generations of a rule (dte01), or all bundles (".").
func Generations(root, name string) (names []string, err error) {
	name = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), "plugins/")
	for _, pattern := range []string{"manifest.json", "*/manifest.json", "*/*/manifest.json"} {
		found, err := filepath.Glob(filepath.Join(root, "plugins", name, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			rel, err := filepath.Rel(filepath.Join(root, "plugins"), filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			names = append(names, filepath.ToSlash(rel))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("plugins/%s has no manifest.json", name)
	}
	return names, nil
}

func (w *Workshop) Folder(name string) string { return filepath.Join(w.source.Root, "plugins", name) }

// Proof is the result of Prove. If a step failed, Rule is nil; otherwise the caller must close it.
type Proof struct {
	Manifest bundle.Manifest
	Steps    []rules.Step
	Rule     *rules.Rule

	parts map[string][]byte
}

// Err returns why a branch would refuse the bundle; nil if all steps passed.
func (p *Proof) Err() error {
	if p.Rule != nil {
		return nil
	}
	last := p.Steps[len(p.Steps)-1]
	return fmt.Errorf("%s %s fails at the step %s: %w", p.Manifest.Name, p.Manifest.Version, last.Name, last.Err)
}

// Prove takes a bundle through the steps of a branch's activation, signed with a temporary key; it accepts any version.
// It returns an error if the bundle could not be built; the Proof reports a step that failed.
func (w *Workshop) Prove(ctx context.Context, name string) (*Proof, error) {
	parts, m, err := w.source.Parts(ctx, name)
	if err != nil {
		return nil, err
	}
	declared := m.Fuel
	if w.IgnoreFuel {
		m.Fuel = 0 // the host's default
	}
	data, err := bundle.Write(parts, m, w.signer)
	if err != nil {
		return nil, err
	}
	p := &Proof{Manifest: m, parts: parts}
	p.Manifest.Fuel = declared
	p.Rule, p.Steps, err = w.hosts[0].Admit(ctx, data, rules.Check{Keys: bundle.Keys{Pinned: []bundle.Key{w.key}},
		Interpreter: w.hosts[1], Case: rulestore.Golden(w.cataloguesFor(&m))})
	if err != nil && len(p.Steps) == 0 {
		return nil, err
	}
	err = nil // the last step has this error
	further := func(name string, run func() (string, error)) {
		step := rules.Step{Name: name}
		if p.Rule == nil {
			return
		}
		if step.Run(run) != nil {
			err = p.Rule.Close(ctx)
			p.Rule = nil
		}
		p.Steps = append(p.Steps, step)
	}
	if m.Kind == "document" && !w.IgnoreFuel {
		further("lines", func() (string, error) {
			peak, err := rulestore.PeakFuel(ctx, p.Rule)
			if err != nil {
				return "", fmt.Errorf("%w; rules test %s --fuel writes how much it needs", err, name)
			}
			return fmt.Sprintf("at most %d units for the most lines", peak), nil
		})
	}
	if t, _ := bundle.ParseType(m.Document, parts); t != nil {
		further("type", func() (string, error) {
			changed, err := record.Successor(t)
			return cmp.Or(strings.Join(changed, "; "), "nothing that is known of the type changes"), err
		})
	}
	return p, err
}

// Remade is a golden case that was computed again.
type Remade struct {
	Part    string // cases/above.json
	Differs error  // the difference from the stored case; nil: no difference
}

// Said returns an error if the author has left a placeholder in a part of the bundle or in the source of its rule.
func (w *Workshop) Said(p *Proof, name string) error {
	for part, text := range p.parts {
		if bytes.Contains(text, []byte(`"`+unsaid)) {
			return fmt.Errorf("%s still says %q", part, unsaid)
		}
	}
	if p.Manifest.Kind != "document" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(w.Folder(name)), "rule.go"))
	if errors.Is(err, fs.ErrNotExist) { // the module's source is in another language
		return nil
	}
	if bytes.Contains(text, []byte(unsaid)) {
		err = fmt.Errorf("rule.go still says %q", unsaid)
	}
	return err
}

// Update computes a bundle's golden cases again, in both engines, and writes the cases that differ. It returns every
// case, sorted by name. If a case cannot be computed, it writes nothing.
func (w *Workshop) Update(ctx context.Context, name string) ([]Remade, error) {
	parts, m, err := w.source.Parts(ctx, name)
	if err != nil {
		return nil, err
	}
	m.Fuel = 0 // the new rule may cost more: rules test --fuel declares it
	data, err := bundle.Write(parts, m, w.signer)
	if err != nil {
		return nil, err
	}
	made, differ := make(map[string][]byte), make(map[string]error) // keyed by the stored case
	remade := rulestore.Remade(w.cataloguesFor(&m))
	anew := func(ctx context.Context, r *rules.Rule, golden []byte) error {
		text, differs, err := remade(ctx, r, golden)
		if before, twice := made[string(golden)]; err == nil && twice && !bytes.Equal(before, text) {
			err = errors.New("the interpreter makes another document than the compiler")
		}
		made[string(golden)], differ[string(golden)] = text, differs
		return err
	}
	r, steps, err := w.hosts[0].Admit(ctx, data, rules.Check{Keys: bundle.Keys{Pinned: []bundle.Key{w.key}},
		Interpreter: w.hosts[1], Case: anew})
	if err != nil || r == nil {
		if len(steps) > 0 {
			err = cmp.Or(steps[len(steps)-1].Err, err)
		}
		return nil, err
	}
	defer r.Close(ctx)
	var list []Remade
	for _, part := range r.Bundle.Cases() {
		was := parts[part]
		if list = append(list, Remade{part, differ[string(was)]}); differ[string(was)] == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(w.Folder(name), filepath.FromSlash(part)), made[string(was)],
			0o644); err != nil {
			return list, err
		}
	}
	return list, nil
}

// Build signs a bundle that passes its golden cases, and returns the bundle's manifest and bytes.
func (w *Workshop) Build(ctx context.Context, name string, signer bundle.Signer) (bundle.Manifest, []byte, error) {
	p, err := w.Prove(ctx, name)
	if err != nil {
		return bundle.Manifest{}, nil, err
	}
	if err := p.Err(); err != nil {
		return p.Manifest, nil, fmt.Errorf("the bundle is not built: %w", err)
	}
	if err := p.Rule.Close(ctx); err != nil {
		return p.Manifest, nil, err
	}
	if err := w.Said(p, name); err != nil {
		return p.Manifest, nil, fmt.Errorf("the bundle is not built: %w", err)
	}
	data, err := bundle.Write(p.parts, p.Manifest, signer)
	return p.Manifest, data, err
}

// NewKey makes a signing key and writes both halves as PEM: the private half to path, the public half beside it (.pub).
func NewKey(path string) (ed25519.PrivateKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making rules key: %w", err)
	}
	secret, err := bundle.MarshalPrivate(private)
	if err != nil {
		return nil, err
	}
	open, err := bundle.MarshalPublic(public)
	if err != nil {
		return nil, err
	}
	if err := config.WriteFile(path, secret); err != nil {
		return nil, err
	}
	return private, config.WriteFile(path+".pub", open)
}
