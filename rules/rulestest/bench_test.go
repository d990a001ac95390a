package rulestest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// BenchmarkEvaluate is what a limit costs: fuel alone, and a clock beside it.
func BenchmarkEvaluate(b *testing.B) {
	parts, manifest := plugintest.Parts(b, "dte01/v2")
	for _, limit := range []struct {
		name    string
		timeout time.Duration
	}{{"fuel", 0}, {"clock", time.Second}} {
		for _, engine := range []string{"compiler", "interpreter"} {
			host, err := rules.NewHost(context.Background(), rules.Options{Engine: engine, Timeout: limit.timeout,
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
				b.Run(fmt.Sprintf("%s/%s/%d", limit.name, engine, lines), func(b *testing.B) {
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
}
