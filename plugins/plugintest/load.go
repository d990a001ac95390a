package plugintest

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// Hosts and rules live as long as the test process: a guest takes a second to compile, and all tests share it.
var shared struct {
	sync.Mutex
	hosts map[string]*rules.Host    // by engine
	rules map[[2]string]*rules.Rule // by bundle and engine
}

// Load builds, signs and loads a bundle, with its filler. engine is "compiler" or "interpreter". Do not close the rule.
func Load(t testing.TB, name, engine string) (*rules.Rule, *schema.Filler) {
	t.Helper()
	r := Rule(t, name, engine)
	return r, Filler(t, r)
}

// Host returns the process's host, in which Load loads the rules. Do not close it.
func Host(t testing.TB, engine string) *rules.Host {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if h := shared.hosts[engine]; h != nil {
		return h
	}
	h, err := rules.NewHost(context.Background(), rules.Options{Engine: engine, Logger: slog.New(slog.DiscardHandler),
		CacheDir: filepath.Join(Root(t), "var", "build", "cache")})
	if err != nil {
		t.Fatal(err)
	}
	if shared.hosts == nil {
		shared.hosts, shared.rules = make(map[string]*rules.Host), make(map[[2]string]*rules.Rule)
	}
	shared.hosts[engine] = h
	return h
}

// Rule is Load without the filler.
func Rule(t testing.TB, name, engine string) *rules.Rule {
	t.Helper()
	data, host := Bundle(t, name), Host(t, engine)
	shared.Lock()
	defer shared.Unlock()
	if r := shared.rules[[2]string{name, engine}]; r != nil {
		return r
	}
	b, err := bundle.Keys{Pinned: []bundle.Key{Key()}}.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	r, err := host.LoadBundle(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	shared.rules[[2]string{name, engine}] = r
	return r
}

// Filler compiles a rule's schema, with the catalogues of this repository.
func Filler(t testing.TB, r *rules.Rule) *schema.Filler {
	t.Helper()
	d := r.Module.Description()
	out := schema.Outputs{Summary: d.Summary, Taxes: d.Taxes}
	for _, f := range d.LineOutputs {
		out.Lines = append(out.Lines, schema.Output{Name: f.Name, Set: f.Kind == "set"})
	}
	return compile(t, r.Bundle, out)
}

// EventFiller signs, reads back and compiles a bundle that has no module.
func EventFiller(t testing.TB, name string) (*schema.Filler, *bundle.Bundle) {
	t.Helper()
	b, err := bundle.Keys{Pinned: []bundle.Key{Key()}}.Read(Bundle(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, b, schema.Outputs{}), b
}

func compile(t testing.TB, b *bundle.Bundle, out schema.Outputs) *schema.Filler {
	t.Helper()
	parts, _ := Parts(t, "catalogues")
	catalogues, err := dte.ParseCatalogues(parts["catalogues.json"])
	if err != nil {
		t.Fatal(err)
	}
	filler, err := schema.Compile(b.Parts["schema.json"], b.Parts["overlay.json"], out, catalogues)
	if err != nil {
		t.Fatal(err)
	}
	return filler
}
