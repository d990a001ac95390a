package plugins

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"dtegate/rules/bundle"
)

// Issued returns the types that a branch issues if its configuration names no types.
func Issued() []string {
	return []string{"01", "03", "05", "06", "07", "14", "18"}
}

//go:embed */type.json */form.json */view.json */*/manifest.json
var described embed.FS

// Types returns the types of documents whose sources are in this folder. The caller may change the slice.
func Types() []*bundle.Type { return slices.Clone(readTypes()) }

var readTypes = sync.OnceValue(func() (types []*bundle.Type) {
	manifests, err := fs.Glob(described, "*/*/manifest.json")
	seen := make(map[string]bool)
	for _, name := range manifests {
		var m bundle.Manifest
		var t *bundle.Type
		text, wrong := described.ReadFile(name)
		if wrong == nil {
			m, wrong = bundle.ParseManifest(text)
		}
		parts := make(map[string][]byte)
		for _, part := range bundle.TypeParts {
			if text, none := described.ReadFile(path.Join(path.Dir(path.Dir(name)), part)); none == nil {
				parts[part] = text
			}
		}
		if wrong == nil && m.Kind == "document" && !seen[m.Document] {
			t, wrong = bundle.ParseType(m.Document, parts)
		}
		if err = errors.Join(err, wrong); t != nil {
			seen[m.Document], types = true, append(types, t)
		}
	}
	if err != nil {
		// A release cannot panic here: the gateway's tests read the same embedded files.
		panic(fmt.Sprintf("the types of plugins/: %v", err))
	}
	return types
})
