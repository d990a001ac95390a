package main

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dtegate/plugins/plugintest"
)

var signerProcess = flag.Bool("signer", false, "measure a signer process of its own; run it alone")

// TestSigner is an experiment (RATIONALE, "A signer process"): the appliance beside itself with its signatures made by another
// process, in short turns; then what a sale meets when that process is gone, hangs or lies.
func TestSigner(t *testing.T) {
	if !*signerProcess {
		t.Skip("make bench-signer runs it")
	}
	const rounds = 30
	dir := t.TempDir()
	signer, appliance := buildSigner(t, dir)
	all := []*contender{{name: "dted"}}
	for _, by := range []string{"go", "openssl"} {
		all = append(all, &contender{name: "dted and a signer process, " + by})
	}
	var processes []*exec.Cmd
	for i, c := range all {
		c.bench = &bench{branch: newBranch(t, everyRule...)}
		if i > 0 {
			socket := filepath.Join(dir, fmt.Sprint(i))
			processes = append(processes, startSigner(t, c.bench, signer, socket, []string{"go", "openssl"}[i-1]))
			c.processes = []int{processes[i-1].Process.Pid}
			c.bench.under = func(cmd *exec.Cmd) error {
				cmd.Path, cmd.Env = appliance, append(os.Environ(), "DTED_SIGNER="+socket)
				return nil
			}
		}
		c.bench.startLazily()
		defer c.bench.stop()
		c.processes = append(c.processes, c.bench.cmd.Process.Pid)
		c.turn(t)
	}
	for _, online := range []bool{true, false} {
		alone := make([][]time.Duration, len(all))
		for _, c := range all {
			if !online {
				c.bench.outage(t)
			}
			c.counted, c.turns, c.latency, c.around, c.spent = 0, nil, nil, 0, -treeSpent(t, c.processes)
		}
		for i := range rounds {
			for k := range all {
				all[(i+k)%len(all)].turn(t)
			}
		}
		for _, c := range all {
			c.spent += treeSpent(t, c.processes)
		}
		for i := range 300 {
			for k := range all {
				c := (i + k) % len(all)
				alone[c] = append(alone[c], timed(func() { all[c].bench.sell(t, 1) }))
			}
		}
		fmt.Printf("| MH online: %v | CPU of a document | its share of dted's | documents/s, 16 tills, 8 series | of dted's | p50 | p99 | alone p50 | p99 |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n", online)
		first := all[0].spent / time.Duration(all[0].counted)
		for i, c := range all {
			ratios := make([]float64, rounds)
			for k := range ratios {
				ratios[k] = c.turns[k] / all[0].turns[k]
			}
			slices.Sort(ratios)
			each := c.spent / time.Duration(c.counted)
			slices.Sort(c.turns)
			took := func(latency []time.Duration, q float64) time.Duration {
				return quantile(latency, q).Round(100 * time.Microsecond)
			}
			fmt.Printf("| %s | %v | %.2f | %.0f | %.2f | %v | %v | %v | %v |\n", c.name, each.Round(10*time.Microsecond), ratio(each, first), c.turns[rounds/2],
				ratios[rounds/2], took(c.latency, .5), took(c.latency, .99), took(alone[i], .5), took(alone[i], .99))
		}
	}
	signerFaults(t, all[2].bench, processes[1], signer, filepath.Join(dir, "2"))
}

// signerFaults has the signer process hang, die, come back and lie, while a till sells.
func signerFaults(t *testing.T, b *bench, process *exec.Cmd, signer, socket string) {
	number := func() string {
		t.Helper()
		r := b.sold(sale10)
		var document struct {
			Identificacion struct{ NumeroControl string }
		}
		if err := json.Unmarshal(r.JSON, &document); err != nil {
			t.Fatal(err)
		}
		return document.Identificacion.NumeroControl
	}
	refused := func(what string) {
		t.Helper()
		began := time.Now()
		status, answer, err := b.post("/dte/dte01", 1, "", sale10)
		if err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %v %s", what, status, err, answer)
		}
		fmt.Printf("%s: %d after %v: %s\n", what, status, time.Since(began).Round(time.Millisecond), bytes.TrimSpace(answer))
	}
	first := number()
	if err := process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	refused("it hangs")
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	refused("it is gone")
	liar, err := net.Listen("unix", socket)
	if err == nil {
		t.Fatal("the socket of the dead signer was free")
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if liar, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := liar.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, sha512.Size))
			_, _ = connection.Write(make([]byte, b.key.Public().Size()))
		}
	}()
	refused("it lies")
	_ = liar.Close()
	startSigner(t, b, signer, socket, "go")
	last := number()
	fmt.Printf("before %s, behind all three %s\n", first, last)
	var from, to int
	for number, at := range map[string]*int{first: &from, last: &to} {
		if _, err := fmt.Sscanf(number[strings.LastIndexByte(number, '-')+1:], "%d", at); err != nil {
			t.Fatal(err)
		}
	}
	if to != from+1 {
		t.Errorf("numbers were spent: %s, %s", first, last)
	}
}

// buildSigner builds the signer process, and the appliance that asks it.
func buildSigner(t *testing.T, dir string) (signer, appliance string) {
	root := plugintest.Root(t)
	at := filepath.Join(root, "deploy", "bench", "signer")
	signer, appliance = filepath.Join(dir, "dtesign"), filepath.Join(dir, "dted")
	build := exec.Command("go", "build", "-o", signer, ".")
	build.Dir, build.Env = at, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); unreachable.Match(out) {
		t.Skipf("the library of the signer cannot be fetched: %s", out)
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	right := filepath.Join(root, "engine", "sign", "right.go")
	text, err := os.ReadFile(right)
	if err != nil {
		t.Fatal(err)
	}
	const here, there = "rsa.SignPKCS1v15(nil, k.private, crypto.SHA512, digest[:])", "elsewhere(k.Public(), digest[:])"
	if bytes.Count(text, []byte(here)) != 1 {
		t.Fatal("engine/sign does not sign as it did")
	}
	text = bytes.Replace(text, []byte(here), []byte(there), 1)
	for _, unused := range []string{"\"crypto\"", "\"crypto/rsa\""} {
		text = bytes.Replace(text, []byte("\t"+unused+"\n"), nil, 1)
	}
	changed := filepath.Join(dir, "right.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		right: changed, filepath.Join(filepath.Dir(right), "remote.go"): filepath.Join(at, "dted", "remote.go")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{changed: text, filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build = exec.Command("go", "build", "-tags", "signer", "-overlay", filepath.Join(dir, "overlay.json"), "-o", appliance, "./cmd/dted")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return signer, appliance
}

func startSigner(t *testing.T, b *bench, program, socket, by string) *exec.Cmd {
	cmd := exec.Command(program, "-socket", socket, "-by", by)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(signingPEM(t, b.key)), os.Stderr
	_ = os.Remove(socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return cmd
		}
	}
	t.Fatal("the signer process does not listen")
	return nil
}
