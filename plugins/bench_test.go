package plugins_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules/abi"
)

// BenchmarkRule is one evaluation of a bundle's module: for an ordinary sale, and for one line, so that the cost of a
// line can be told from the cost of a call.
func BenchmarkRule(b *testing.B) {
	for _, name := range []string{"dte01/v2", "dte03/v4", "dte05/v4", "dte14/v2"} {
		for _, engine := range []string{"compiler", "interpreter"} {
			r, _ := plugintest.Load(b, name, engine)
			for _, lines := range []int{1, 10, 2000} {
				in := plugintest.Ordinary(rand.New(rand.NewPCG(1, 1)), r.Module.Description(), r.Params, lines)
				b.Run(fmt.Sprintf("%s/%s/%d", name, engine, lines), func(b *testing.B) {
					b.ReportAllocs()
					var out abi.Output
					for b.Loop() {
						if err := r.Module.Evaluate(context.Background(), &in, &out); err != nil {
							b.Fatal(err)
						}
					}
					if len(out.Summary) == 0 {
						b.Fatal("refused")
					}
				})
			}
		}
	}
}
