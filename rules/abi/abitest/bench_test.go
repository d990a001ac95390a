package abitest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// BenchmarkEvaluate is what an evaluation costs.
func BenchmarkEvaluate(b *testing.B) {
	parts, manifest := plugintest.Parts(b, "dte01/v2")
	for _, engine := range []string{"compiler", "interpreter"} {
		host, err := rules.NewHost(context.Background(), rules.Options{Engine: engine,
			CacheDir: filepath.Join(plugintest.Root(b), "var", "build", "cache")})
		if err != nil {
			b.Fatal(err)
		}
		r, err := host.LoadBundle(context.Background(), &bundle.Bundle{Manifest: manifest, Parts: parts})
		if err != nil {
			b.Fatal(err)
		}
		for _, lines := range []int{1, 10, 2000} {
			in := plugintest.Ordinary(rand.New(rand.NewPCG(1, 1)), r.Module.Description(), r.Params, lines)
			b.Run(fmt.Sprintf("%s/%d", engine, lines), func(b *testing.B) {
				var out abi.Output
				for b.Loop() {
					if err := r.Module.Evaluate(context.Background(), &in, &out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(r.Module.Peak()), "units/peak")
			})
		}
		_ = host.Close(context.Background())
	}
}
