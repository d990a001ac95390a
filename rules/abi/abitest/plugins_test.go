package abitest_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/abi/abitest"
	"dtegate/rules/bundle"
)

const (
	one  = 100_000_000 // 1.00
	none = abi.Absent
)

// own are documents of the types that are not sales: scalars and lines, in the order of their descriptions.
var own = map[string]abi.Input{
	"dte07/v2": {N: 2, Lines: []int64{
		1000 * one, 0, 10 * one,
		200 * one, 2, 5 * one}},
	"dte14/v2": {N: 2, Scalars: []int64{1, none, none}, Lines: []int64{
		2 * one, 35 * one / 10, none, 0,
		one / 3, 120 * one, one, 2}},
	"retorno/v1": {N: 1, Scalars: []int64{0, none, none, 1130 * one / 100, none, none, none, none, none, 0, 0, none,
		none, none, none, none},
		Lines: []int64{one, 1130 * one / 100, 0, one, none, none, none, none, 1130 * one / 100, none, none, none, 0}},
}

// TestPlugins: every module of this repository passes the kit.
func TestPlugins(t *testing.T) {
	for _, name := range []string{"dte01/v2", "dte03/v4", "dte05/v4", "dte06/v4", "dte07/v2", "dte14/v2",
		"retorno/v1"} {
		t.Run(name, func(t *testing.T) {
			parts, manifest := plugintest.Parts(t, name)
			host, err := rules.NewHost(context.Background(), rules.Options{Engine: "interpreter"})
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close(context.Background())
			r, err := host.LoadBundle(context.Background(), &bundle.Bundle{Manifest: manifest, Parts: parts})
			if err != nil {
				t.Fatal(err)
			}
			documents := []abi.Input{own[name]}
			if documents[0].N == 0 {
				documents = nil
				rng := rand.New(rand.NewPCG(1, 2))
				for _, lines := range []int{1, 10, 50} {
					documents = append(documents, plugintest.Ordinary(rng, r.Module.Description(), r.Params, lines))
				}
			}
			abitest.Run(t, parts["module.wasm"], abitest.Options{Params: r.Params, Documents: documents,
				CacheDir: filepath.Join(plugintest.Root(t), "var", "build", "cache")})
		})
	}
}
