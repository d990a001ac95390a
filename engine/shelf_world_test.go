package engine

import (
	"context"
	"testing"

	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// shelf gives a world's engine a shelf: what the store has, and what the test ships.
func (w *world) shelf(shipped map[string][]byte) *rulestore.Store {
	w.t.Helper()
	s, err := w.openShelf(shipped)
	if err != nil {
		w.t.Fatal(err)
	}
	w.adopt(s)
	return s
}

// adopt has the branch compute by a shelf.
func (w *world) adopt(s *rulestore.Store) {
	w.t.Helper()
	if err := w.remake(s); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) openShelf(shipped map[string][]byte) (*rulestore.Store, error) {
	s := rulestore.New(w.shelfOptions())
	return s, s.Load(context.Background(), shipped)
}

func (w *world) shelfOptions() rulestore.Options {
	pinned, log := w.pinned, w.log
	if pinned == nil {
		pinned = []bundle.Key{plugintest.Key()}
	}
	if log == nil {
		log = quiet
	}
	return rulestore.Options{Store: w.store, Host: plugintest.Host(w.t, "compiler"),
		Interpreter: plugintest.Host(w.t, "interpreter"), Keys: bundle.Keys{Pinned: pinned},
		Box:      w.box,
		Ambiente: w.options(nil).Issuer.Ambiente, Logger: log, Now: w.now, Points: w.points, Returned: w.returned}
}

// shipped are the bundles that the tests of a shelf start with.
func shipped(t testing.TB) map[string][]byte {
	all := make(map[string][]byte)
	for _, name := range []string{"catalogues", "dte01/v1", "dte01/v2"} {
		all[name] = plugintest.Bundle(t, name)
	}
	return all
}

func push(t testing.TB, s *rulestore.Store, data []byte) *rulestore.Activation {
	t.Helper()
	a, err := s.Activate(context.Background(), data, rulestore.Order{Who: "test", FewerCases: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func edition(t testing.TB, version string, changes ...bundletest.Change) []byte {
	t.Helper()
	return bundletest.Edition(t, "dte01/v2", version, changes...)
}
