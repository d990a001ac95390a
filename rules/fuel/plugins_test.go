package fuel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"dtegate/plugins/plugintest"
	"dtegate/rules/abi"
)

// guest is a rule module in an engine, without the host that this repository runs it in.
type guest struct {
	t      *testing.T
	module api.Module
	buffer uint32
}

func start(t *testing.T, wasm []byte) *guest {
	t.Helper()
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(plugintest.Root(t), "var", "build", "engine-cache"))
	if err != nil {
		t.Fatal(err)
	}
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache))
	t.Cleanup(func() { _, _ = r.Close(ctx), cache.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	lend(t, r)
	m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t, module: m}
	g.buffer = uint32(g.call("dte_buffer", 1<<20))
	return g
}

func (g *guest) call(name string, args ...uint64) uint64 {
	g.t.Helper()
	r, err := g.module.ExportedFunction(name).Call(context.Background(), args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return r[0]
}

func (g *guest) evaluate(message []byte) []byte {
	g.t.Helper()
	if !g.module.Memory().Write(g.buffer, message) {
		g.t.Fatal("no room")
	}
	answer, ok := g.module.Memory().Read(g.buffer, uint32(g.call("dte_evaluate", uint64(len(message)))))
	if !ok {
		g.t.Fatal("no answer")
	}
	return bytes.Clone(answer)
}

// TestMeter_Plugins: metering changes nothing in what the modules of this repository answer, be it an amount or a
// fault.
func TestMeter_Plugins(t *testing.T) {
	names := []string{"dte01/v2", "retorno/v1"}
	if os.Getenv("DTE_SOAK") != "" {
		names = append(names, "dte03/v4", "dte05/v4", "dte06/v4", "dte07/v2", "dte14/v2")
	}
	for _, name := range names {
		parts, _ := plugintest.Parts(t, name)
		wasm := parts["module.wasm"]
		plain, metered := start(t, wasm), start(t, meter(t, wasm))
		said := plain.call("dte_describe")
		if said != metered.call("dte_describe") {
			t.Errorf("%s describes itself elsewhere", name)
		}
		text, _ := plain.module.Memory().Read(uint32(said>>32), uint32(said))
		var d abi.Description
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		params := make([]int64, len(d.Params))
		for i := range params {
			params[i] = int64(i+1) * 5_000_000
		}
		rng := rand.New(rand.NewPCG(5, 6))
		computed := 0
		for range 100 {
			in := plugintest.Ordinary(rng, &d, params, 1+rng.IntN(40))
			for rng.IntN(2) == 0 { // and nonsense now and then
				in.Lines[rng.IntN(len(in.Lines))] = rng.Int64() >> rng.IntN(60)
			}
			for i, f := range d.Columns {
				for row := range in.N {
					if v := &in.Lines[row*len(d.Columns)+i]; f.Kind == "enum" || f.Kind == "set" {
						*v = 0 // what the host sends is never out of range
					}
				}
			}
			message := abi.AppendInput(nil, &in)
			want := plain.evaluate(message)
			if got := metered.evaluate(message); !bytes.Equal(got, want) {
				t.Fatalf("%s answers %x metered, %x plain, to %+v", name, got, want, in)
			}
			if len(want) > 500 {
				computed++
			}
		}
		if computed < 10 {
			t.Errorf("%s: only %d of 100 were computed: they prove little", name, computed)
		}
	}
}
