package abitest_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/abi/abitest"
	w "dtegate/rules/asmtest"
)

// language is how the example of a language is built.
type language struct {
	name   string
	find   func(root string) string // finds its compiler, "" when it is not installed
	args   []string                 // into out
	folder string                   // below example
	// commands that install a compiler; none: it comes from no registry that this test uses
	install [][]string
	missing string
}

var languages = []language{
	{name: "AssemblyScript", args: []string{"sum.ts", "-O", "--runtime", "stub", "--use", "abort=", "-o"},
		find: func(root string) string {
			return first(filepath.Join(root, "var", "build", "node_modules", ".bin", "asc"), "asc")
		},
		install: [][]string{{"npm", "install", "--prefix", filepath.Join("var", "build"), "assemblyscript"}},
		missing: "npm install --prefix var/build assemblyscript"},
	{name: "C", args: []string{"--target=wasm32", "-O2", "-nostdlib", "-fno-builtin", "-mno-bulk-memory",
		"-Wl,--no-entry", "-Wl,-z,stack-size=65536", "sum.c", "-o"},
		find: func(string) string {
			if first("wasm-ld") == "" {
				return ""
			}
			return first("clang")
		},
		install: [][]string{{"apt-get", "install", "-y", "--no-install-recommends", "clang", "lld"}},
		missing: "clang and wasm-ld: apt-get install clang lld"},
	{name: "Rust", args: []string{"--target", "wasm32-unknown-unknown", "--edition", "2021", "--crate-type", "cdylib",
		"-C", "opt-level=2", "-C", "panic=abort",
		"-C", "target-feature=-bulk-memory,-multivalue,-reference-types", "sum.rs", "-o"}, find: rustc,
		install: [][]string{{"apt-get", "install", "-y", "--no-install-recommends", "rustc", "libstd-rust-dev-wasm32",
			"lld"}},
		missing: "rustc with the target wasm32-unknown-unknown: rustup target add wasm32-unknown-unknown, or apt-get " +
			"install rustc libstd-rust-dev-wasm32 lld"},
	{name: "TinyGo", folder: "tinygo", args: []string{"build", "-target", "wasm-unknown", "-opt", "2", "-panic", "trap",
		"sum.go", "-o"},
		find:    func(string) string { return first("tinygo") },
		missing: "tinygo: neither npm nor Debian has it, see tinygo.org"},
}

// first is the first of some programs that is installed.
func first(programs ...string) string {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// rustc is a compiler that has the target: several may be installed.
func rustc(string) string {
	for _, path := range []string{first("rustc"), "/usr/bin/rustc"} {
		dir, err := exec.Command(path, "--target", "wasm32-unknown-unknown", "--print", "target-libdir").Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(dir))); err == nil {
			return path
		}
	}
	return ""
}

// TestLanguages: the guest of the interface's page, in languages other than Go, passes the kit and answers what the
// hand-written guest answers. Where a compiler is missing the test says so; make languages installs what npm and Debian
// have.
func TestLanguages(t *testing.T) {
	root := plugintest.Root(t)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			if l.find(root) == "" && os.Getenv("DTE_INSTALL") != "" {
				for _, command := range l.install {
					cmd := exec.Command(command[0], command[1:]...)
					cmd.Dir = root
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Logf("%v: %v\n%.2000s", command, err, out)
					}
				}
			}
			compiler := l.find(root)
			if compiler == "" {
				skip.Test(t, "make languages", l.missing)
			}
			out := filepath.Join(t.TempDir(), "sum.wasm")
			cmd := exec.Command(compiler, append(l.args, out)...)
			cmd.Dir = filepath.Join(root, "rules", "abi", "example", l.folder)
			if b, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			wasm, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", len(wasm))
			abitest.Run(t, wasm, abitest.Options{Documents: few})
			answersAlike(t, wasm)
		})
	}
}

// answersAlike compares a guest with the hand-written one, also on messages that no host sends.
func answersAlike(t *testing.T, wasm []byte) {
	t.Helper()
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
		if !bytes.Equal(answers[0], answers[1]) || errors.Is(errs[0], rules.ErrRefused) != errors.Is(errs[1],
			rules.ErrRefused) {
			t.Fatalf("to %x: %x, %v and by hand %x, %v", message, answers[0], errs[0], answers[1], errs[1])
		}
	}
}
