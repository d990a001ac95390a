package enginetest

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// Shelf gives a world's engine a shelf: what the store has, and what the test ships.
func (w *World) Shelf(shipped map[string][]byte) *rulestore.Store {
	w.T.Helper()
	s, err := w.OpenShelf(shipped)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Adopt(s)
	return s
}

// Ruled returns a shelf without bundles, whose rules are the given book.
func Ruled(t testing.TB, store *storage.Store, book *rulestore.Book, ambiente string,
	now func() time.Time) *rulestore.Store {
	t.Helper()
	if err := record.Learn(book.Types(ambiente, dte.Date(now()))...); err != nil {
		t.Error(err)
	}
	return rulestore.New(rulestore.Options{Store: store, Book: book, Ambiente: ambiente, Logger: Quiet, Now: now})
}

// Adopt makes a new engine with a shelf's rules.
func (w *World) Adopt(s *rulestore.Store) {
	w.T.Helper()
	if err := w.remake(s); err != nil {
		w.T.Fatal(err)
	}
}

func (w *World) OpenShelf(shipped map[string][]byte) (*rulestore.Store, error) {
	s := rulestore.New(w.ShelfOptions())
	return s, s.Load(context.Background(), shipped)
}

func (w *World) ShelfOptions() rulestore.Options {
	pinned, log := w.Pinned, w.log
	if pinned == nil {
		pinned = []bundle.Key{plugintest.Key()}
	}
	if log == nil {
		log = Quiet
	}
	return rulestore.Options{Store: w.Store, Host: plugintest.Host(w.T, "compiler"),
		Interpreter: plugintest.Host(w.T, "interpreter"), Keys: bundle.Keys{Pinned: pinned},
		Box:      w.Box,
		Ambiente: w.options(nil).Issuer.Ambiente, Logger: log, Now: w.Now, Points: w.Points, Returned: w.Returned}
}

// Shipped are the bundles that the tests of a shelf start with.
func Shipped(t testing.TB) map[string][]byte {
	all := make(map[string][]byte)
	for _, name := range []string{"catalogues", "dte01/v1", "dte01/v2"} {
		all[name] = plugintest.Bundle(t, name)
	}
	return all
}

func Push(t testing.TB, s *rulestore.Store, data []byte) *rulestore.Activation {
	t.Helper()
	a, err := s.Activate(context.Background(), data, rulestore.Order{Who: "test", FewerCases: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func Edition(t testing.TB, version string, changes ...bundletest.Change) []byte {
	t.Helper()
	return bundletest.Edition(t, "dte01/v2", version, changes...)
}
