package plugins_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// shipped are the bundles of this repository by document and generation, "05 3", each loaded when first asked for.
type shipped struct {
	t     *testing.T
	names map[string]string
	rules map[string]*ready
}

type ready struct {
	rule   *rules.Rule
	filler *schema.Filler
}

func load(t *testing.T) *shipped {
	t.Helper()
	s := &shipped{t, map[string]string{}, map[string]*ready{}}
	for _, name := range slices.Concat(plugins.Names, plugins.Further) {
		m := manifest(t, name)
		if m.Kind == "document" {
			s.names[fmt.Sprintf("%s %d", m.Document, m.Schema)] = name
		}
	}
	return s
}

func manifest(t *testing.T, name string) (m bundle.Manifest) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(plugintest.Root(t), "plugins", name, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// of is the bundle of a document's type and generation; nil when none ships.
func (s *shipped) of(document dte.Value) *ready {
	id := document.Get("identificacion")
	generation := id.Get("tipoDte").Text() + id.Get("tipoEvento").Text() + " " + id.Get("version").Text()
	name, ok := s.names[generation]
	if !ok {
		return nil
	}
	if s.rules[generation] == nil {
		r, filler := plugintest.Load(s.t, name, "compiler")
		s.rules[generation] = &ready{r, filler}
	}
	return s.rules[generation]
}

// issue makes the document that facts ask for, whatever today's catalogues say of its codes.
func (r *ready) issue(facts dte.Value) ([]byte, error) {
	b, refused := plugintest.Issue(r.rule, r.filler, facts, schema.FillOptions{})
	if len(refused) > 0 {
		return nil, fmt.Errorf("refused: %v", refused)
	}
	return b, nil
}

// leaves are the values of a document by their place; an object or list that is null is one value.
func leaves(v dte.Value, path string, into map[string]dte.Value) {
	switch v.Kind() {
	case dte.KindObject:
		for _, m := range v.Members() {
			leaves(m.Value, strings.TrimPrefix(path+"."+m.Name, "."), into)
		}
	case dte.KindArray:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), into)
		}
	default:
		into[path] = v
	}
}

// examples are MH's documents of the given patterns, by their path under mh/examples.
func examples(t *testing.T, patterns ...string) map[string]dte.Value {
	t.Helper()
	folder := filepath.Join(plugintest.Root(t), "..", "shared", "mh", "examples")
	found := map[string]dte.Value{}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(filepath.Join(folder, pattern))
		for _, path := range files {
			if strings.HasSuffix(path, ".response.json") || strings.HasSuffix(path, ".mh.json") {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			v, err := dte.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(folder, path)
			found[filepath.ToSlash(name)] = v
		}
	}
	if len(found) == 0 {
		skip.Test(t, skip.MHDocuments)
	}
	return found
}

func sorted(m map[string]dte.Value) []string { return slices.Sorted(maps.Keys(m)) }
