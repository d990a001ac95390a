package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtectl/demo"
	"dtegate/engine/archive/archivetest"
	"dtegate/plugins/plugintest"
)

// TestREADME_Chain runs the commands of the chain's document against a demonstration that runs as make run-fleet starts
// it.
func TestREADME_Chain(t *testing.T) {
	t.Parallel()
	skip.Short(t)
	store := archivetest.Program(t)
	root := plugintest.Root(t)
	script, want := documentScript(t, root, "engine/fleet/README.md")
	bin := buildPrograms(t, root)
	dir := filepath.Join(t.TempDir(), "fleet")
	shown := exec.Command(filepath.Join(bin, "dtectl"), "demo", "--chain", "--store", store, "--dir", dir)
	shown.Dir, shown.Env = root, os.Environ()
	var addresses []string
	for range 2 + 2*len(demo.Branches) {
		addresses = append(addresses, cmdtest.Port(t))
	}
	shown.Env = append(shown.Env, "DTED_CHAIN_ADDRS="+strings.Join(addresses, ","))
	for _, name := range []string{"DTESIM_ADDR", "DTESIM_MANAGE_ADDR", "DTESIM_SMTP_ADDR"} {
		shown.Env = append(shown.Env, name+"="+cmdtest.Port(t))
	}
	shown.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	said, err := os.Create(filepath.Join(bin, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	shown.Stdout, shown.Stderr = said, said
	if err := shown.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- shown.Wait() }()
	log := func() string {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	t.Cleanup(func() {
		_ = shown.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			t.Errorf("ending the demonstration: %v", err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*.pid"))
		if err != nil || len(left) > 0 {
			t.Errorf("%q are left behind, %v", left, err)
		}
	})
	// another process
	for begin := time.Now(); !strings.Contains(log(), "In another terminal"); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("the demonstration ended: %v\n%s", err, log())
		default:
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("the demonstration does not open:\n%s", log())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.NewReplacer("var/fleet", dir, "bin/dtectl", filepath.Join(bin,
		"dtectl"), "127.0.0.1:8280", addresses[6]).Replace(script))
	cmd.Dir = root
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil || out.String() != want {
		t.Errorf("%v\ngot:\n%s%s\nwant:\n%s\nthe demonstration said:\n%s", err, out.String(), problems.String(), want,
			log())
	}
	if os.Getenv("DTE_SCREENSHOTS") != "" {
		address := cmdtest.Port(t)
		serve := exec.CommandContext(ctx, filepath.Join(bin, "dtectl"), "fleet", "serve", "--centre", filepath.Join(dir,
			"fleet.toml"), "--listen", address)
		serve.Dir = root
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		if err := demo.Await(ctx, "http://"+address+"/"); err != nil {
			t.Error(err)
		}
		keepPicture(t, "http://"+address+"/", "chain")
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}
}
