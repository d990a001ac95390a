package plugintest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
)

// Refusals checks a filler against documents that MH's rules forbid, even if MH's schema file allows them: each change
// to the facts must be refused at its path.
func Refusals(t *testing.T, f *schema.Filler, facts dte.Value, changes map[string]string) {
	t.Helper()
	if _, faults := f.Fill(nil, facts, nil, schema.FillOptions{Catalogues: true}); len(faults) > 0 {
		t.Fatalf("the facts themselves are refused: %v", faults)
	}
	for change, path := range changes {
		_, faults := f.Fill(nil, Merge(facts, Read(t, []byte(change))), nil, schema.FillOptions{Catalogues: true})
		found := false
		for _, fault := range faults {
			found = found || fault.Path == path
		}
		if !found {
			t.Errorf("%s: got %v, want a fault at %s", change, faults, path)
		}
	}
}

// Merge changes facts: objects member by member; in a list, the only item of the change changes the first item.
func Merge(facts, change dte.Value) dte.Value {
	switch {
	case change.Kind() == dte.KindObject && facts.Kind() == dte.KindObject:
		for _, m := range change.Members() {
			facts = facts.With(m.Name, Merge(facts.Get(m.Name), m.Value))
		}
		return facts
	case change.Kind() == dte.KindArray && change.Len() == 1 && facts.Len() > 0:
		items := []dte.Value{Merge(facts.Index(0), change.Index(0))}
		for i := 1; i < facts.Len(); i++ {
			items = append(items, facts.Index(i))
		}
		return dte.Arr(items...)
	}
	return change
}

// SchemaAgreesOn is SchemaAgrees for a file without examples: the test makes the documents.
func SchemaAgreesOn(t *testing.T, name, published string, documents ...dte.Value) {
	t.Helper()
	theirs, err := os.ReadFile(filepath.Join(Root(t), "..", "shared", "mh", "schemas", filepath.FromSlash(published)))
	if err != nil {
		skip.Test(t, skip.MHDocuments)
	}
	parts, _ := Parts(t, name)
	ours, mh := bare(t, parts["schema.json"]), bare(t, misspelt.ReplaceAll(bytes.TrimPrefix(theirs, []byte("\xef\xbb\xbf")), nil))
	for i, d := range documents {
		if Refused(mh, d) != nil { // MH's file does not know the municipios of 2024
			documents[i] = everyMunicipio(d, "01")
			d = documents[i]
		}
		if err := errors.Join(Refused(ours, d), Refused(mh, d)); err != nil {
			t.Fatalf("a document of the test is refused: %v", err)
		}
	}
	agreeOnMutations(t, ours, mh, documents)
}
