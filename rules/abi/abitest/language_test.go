package abitest_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/abi/abitest"
	w "dtegate/rules/asmtest"
)

// TestAssemblyScript: the guest of the interface's page, in a language that is not Go, passes the kit and answers what
// the hand-written one answers. It needs the compiler: npm install --prefix var/build assemblyscript.
func TestAssemblyScript(t *testing.T) {
	root := plugintest.Root(t)
	asc := filepath.Join(root, "var", "build", "node_modules", ".bin", "asc")
	if _, err := os.Stat(asc); err != nil {
		if asc, err = exec.LookPath("asc"); err != nil {
			t.Skip("no AssemblyScript compiler: npm install --prefix var/build assemblyscript")
		}
	}
	out := filepath.Join(t.TempDir(), "sum.wasm")
	cmd := exec.Command(asc, "sum.ts", "-O", "--runtime", "stub", "--use", "abort=", "-o", out)
	cmd.Dir = filepath.Join(root, "rules", "abi", "example")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	abitest.Run(t, wasm, abitest.Options{Documents: few})

	host, err := rules.NewHost(t.Context(), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(context.Background())
	var probes []*rules.Probe
	for _, b := range [][]byte{wasm, w.NewSum().Module().Bytes()} {
		m, err := host.Load(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		probes = append(probes, p)
	}
	rng := rand.New(rand.NewPCG(8, 9))
	for range 2000 {
		in := abi.Input{Params: []int64{13_000_000}, N: rng.IntN(30)}
		for range in.N {
			in.Lines = append(in.Lines, rng.Int64()>>rng.IntN(63))
		}
		message := abi.AppendInput(nil, &in)
		if rng.IntN(4) == 0 {
			message[rng.IntN(32)] ^= 1 << rng.IntN(8)
		}
		var answers [2][]byte
		var errs [2]error
		for i, p := range probes {
			answers[i], _, errs[i] = p.Send(message, abi.OutputSize(abi.MaxLines, 1, 1, 0), len(message), 1e6)
		}
		if !bytes.Equal(answers[0], answers[1]) || errors.Is(errs[0], rules.ErrRefused) != errors.Is(errs[1], rules.ErrRefused) {
			t.Fatalf("to %x: %x, %v and by hand %x, %v", message, answers[0], errs[0], answers[1], errs[1])
		}
	}
}
