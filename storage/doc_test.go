package storage

import (
	"os"
	"reflect"
	"regexp"
	"testing"
)

// TestDoc: the page about the API names every method of a store, and they stay few.
func TestDoc(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := reflect.TypeFor[*Store]()
	for m := range methods.Methods() {
		if !regexp.MustCompile(`\b` + m.Name + `\b`).Match(page) {
			t.Errorf("doc.go does not name %s", m.Name)
		}
	}
	if n := methods.NumMethod(); n > 50 {
		t.Errorf("a store has %d methods, more than 50", n)
	}
}
