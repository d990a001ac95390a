package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
)

// volume mounts a small file system and makes it the place of the test's folders; it skips where mounting is not
// allowed.
func volume(t *testing.T, mount func(folder string) *exec.Cmd) string {
	t.Helper()
	skip.Short(t)
	if os.Getuid() != 0 {
		skip.Test(t, "root", "mounts a file system")
	}
	if _, err := binary(); err != nil { // it must not be built in that folder
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "volume")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(folder) })
	if out, err := mount(folder).CombinedOutput(); err != nil {
		skip.Test(t, "mount", err, string(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Setenv("TMPDIR", folder)
	return folder
}

// supervise starts the appliance again whenever it ends, as systemd does; the returned function ends this and the
// appliance, and returns how often it was started.
func (b *branch) supervise() (stop func() int) {
	over, done, starts := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(done)
		for {
			b.launch()
			starts++
			ended := make(chan error, 1)
			go func() { ended <- b.cmd.Wait() }()
			select {
			case <-over:
				_ = b.cmd.Process.Signal(os.Interrupt)
				if err := <-ended; err != nil {
					b.t.Errorf("stopping the appliance: %v", err)
				}
				return
			case <-ended:
				<-time.After(200 * time.Millisecond)
			}
		}
	}()
	end := sync.OnceFunc(func() { close(over); <-done })
	b.t.Cleanup(end)
	return func() int { end(); return starts }
}

// filler takes up room, so that others find none.
type filler struct{ path string }

// leave fills the file system until this many bytes are free.
func (f filler) leave(t *testing.T, free int64) {
	t.Helper()
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 64<<10); ; {
		var s syscall.Statfs_t
		if err := syscall.Fstatfs(int(file.Fd()), &s); err != nil {
			t.Fatal(err)
		}
		missing := int64(s.Bavail)*s.Bsize - free
		if missing <= 0 {
			return
		}
		if _, err := file.Write(block[:min(missing, int64(len(block)))]); errors.Is(err, syscall.ENOSPC) && free == 0 {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskFull: tills sell through an outage until the disk is full; MH comes back, and the issued documents are sent
// from the full disk. Then somebody fills it to the last byte, ballast included, while there is more to send, and the
// power is cut: the appliance cannot even start. When there is room again the branch continues by itself, and no
// document is lost or doubled.
func TestDiskFull(t *testing.T) {
	const size, reserve = 160 << 20, 32 << 20
	folder := volume(t, func(folder string) *exec.Cmd {
		return exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "dted-test", folder)
	})
	b := newBranch(t)
	b.reconfigure("tokens =", "disk_reserve = \"32MiB\"\ntokens =")
	t.Setenv("WATCHDOG_USEC", "600000") // a commit every 200 ms
	stop := b.supervise()
	b.await(http.StatusOK)
	others := filler{filepath.Join(folder, "others")}
	const tills = 8
	var answers [tills][][]byte
	sell := func(until func(till, i int, status int) bool) {
		var wg sync.WaitGroup
		for till := range tills {
			wg.Go(func() {
				for {
					i := len(answers[till])
					status, body, err := b.post("/dte/dte01", till+1, fmt.Sprintf("till %d sale %d", till, i),
						hammerSale(till, i))
					if err == nil && status == http.StatusCreated {
						answers[till] = append(answers[till], body)
					}
					if err == nil && until(till, i, status) {
						return
					}
				}
			})
		}
		wg.Wait()
	}
	refused := func(_, i, status int) bool { return status == http.StatusServiceUnavailable }
	total := func() (n int) {
		for _, a := range answers {
			n += len(a)
		}
		return n
	}

	b.chaos(simulator.Chaos{Outage: true})
	others.leave(t, reserve+1<<18)
	sell(refused)
	full := total()
	if said := b.await(http.StatusServiceUnavailable); !strings.Contains(said, "STORAGE_FULL") {
		t.Errorf("/readyz says %q", said)
	}
	status, body, err := b.post("/dte/dte01", 1, "one more", hammerSale(1, 1))
	var problem struct{ Type, Message string }
	if err := errors.Join(err, json.Unmarshal(body, &problem)); err != nil || status != 503 ||
		problem.Type != "STORAGE_FULL" {
		t.Errorf("%d %s %v", status, body, err)
	}
	if b.metric("dte_store_full") != 1 {
		t.Error("the metrics do not say that the disk is full")
	}
	b.chaos(simulator.Chaos{})
	for b.waiting() > 0 {
		<-time.After(50 * time.Millisecond)
	}
	if got := b.sim.Received(); got.Documents != full || full == 0 {
		t.Errorf("from the full disk MH received %d of %d", got.Documents, full)
	}

	// More to send, and then not a byte.
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b.chaos(simulator.Chaos{Outage: true})
	must(os.Remove(others.path))
	b.await(http.StatusOK)
	sell(func(_, i, status int) bool { return status == http.StatusCreated && i >= (full+160)/tills })
	for _, err := os.Stat(filepath.Join(b.dir, "data.ballast")); err == nil; _, err = os.Stat(filepath.Join(b.dir,
		"data.ballast")) {
		others.leave(t, 0)
		<-time.After(100 * time.Millisecond)
	}
	b.chaos(simulator.Chaos{})
	cut := false
	for began := time.Now(); time.Since(began) < 4*time.Second; <-time.After(50 * time.Millisecond) {
		others.leave(t, 0)
		if !cut && time.Since(began) > 2*time.Second { // its next start finds no room either
			b.mu.Lock()
			cut = b.cmd.Process.Kill() == nil
			b.mu.Unlock()
		}
	}
	held := b.sim.Received().Documents
	must(os.Remove(others.path))
	b.await(http.StatusOK)
	sell(func(till, i, status int) bool { return status == http.StatusCreated && i >= (full+240)/tills })
	for b.waiting() > 0 {
		<-time.After(50 * time.Millisecond)
	}
	for till := range tills {
		for i, first := range answers[till] {
			r := decode(t, first)
			_, shown, err := b.get("/dte/documento/"+r.Code, till+1)
			must(err)
			now := decode(t, shown)
			a, _ := b.sim.Document(r.Code)
			if now.ControlNumber != r.ControlNumber || now.Estado != "PROCESSED" || now.Sello == nil ||
				*now.Sello != a.Sello {
				t.Fatalf("till %d sale %d: %s is %s %s, MH holds %+v", till, i, r.ControlNumber, now.Estado,
					now.ControlNumber, a)
			}
			if status, again, err := b.post("/dte/dte01", till+1, fmt.Sprintf("till %d sale %d", till, i),
				hammerSale(till, i)); err != nil || status != 201 || !bytes.Equal(again, shown) {
				t.Fatalf("repeated: %d %v %s", status, err, again)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "data.ballast")); err != nil {
		t.Errorf("the ballast is not laid in again: %v", err)
	}
	starts := stop()
	failed := strings.Count(b.log.String(), "no space left on device")
	if starts < 2 || failed == 0 {
		t.Errorf("%d starts, %d writes found no room: the disk was not full", starts, failed)
	}
	t.Logf("%d documents, %d until the disk was full, MH held %d when it was empty again; %d starts, %d writes found "+
		"no room", total(), full, held, starts, failed)
	if got := b.sim.Received(); got.Documents != total() || got.Duplicates != 0 {
		t.Errorf("MH received %+v of %d", got, total())
	}
	for _, breach := range b.sim.Audit() {
		t.Errorf("MH saw: %s", breach)
	}
	b.fsck(total(), tills)
	if t.Failed() {
		t.Log(b.log.String()[max(0, b.log.Len()-4000):])
	}
}

// TestDiskReadOnly: the kernel makes the file system read-only under the appliance, as it does with a failing disk. The
// process ends and acknowledges nothing, logs why, and continues by itself when the disk is well again.
func TestDiskReadOnly(t *testing.T) {
	image := filepath.Join(os.TempDir(), fmt.Sprintf("dted-test-%d.img", os.Getpid()))
	t.Cleanup(func() { _ = os.Remove(image) })
	mount := func(folder string) *exec.Cmd {
		return exec.Command("sh", "-ec",
			`[ -e "$1" ] || { truncate -s 160M "$1"; mkfs.ext4 -q -F "$1"; }; mount -o loop "$1" "$2"`, "sh", image,
			folder)
	}
	folder := volume(t, mount)
	b := newBranch(t)
	b.reconfigure("tokens =", "disk_reserve = \"16MiB\"\ntokens =")
	// nothing but the store syncs by itself
	if out, err := exec.Command("sync", "-f", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stop := b.supervise()
	b.await(http.StatusOK)
	first := b.insist(1, "before", hammerSale(1, 1))
	if out, err := exec.Command("mount", "-o", "remount,abort", folder).CombinedOutput(); err != nil {
		skip.Test(t, "mount", err, string(out))
	}
	for range 3 {
		if status, answer, err := b.post("/dte/dte01", 1, "meanwhile", hammerSale(1, 2)); err == nil && status < 500 {
			t.Errorf("a read-only disk answers %d %s", status, answer)
		}
	}
	for { // the appliance has it open for a moment at each try
		if exec.Command("umount", folder).Run() == nil {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if out, err := mount(folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b.await(http.StatusOK)
	again := b.insist(1, "before", hammerSale(1, 1))
	if !bytes.Equal(first, again) {
		t.Errorf("%s\n%s", first, again)
	}
	if r := decode(t, b.insist(1, "meanwhile", hammerSale(1, 2))); !strings.HasSuffix(r.ControlNumber, "02") {
		t.Errorf("%s after the first", r.ControlNumber)
	}
	if stop() < 2 || !strings.Contains(b.log.String(), "read-only file system") {
		t.Errorf("no word of it:\n%s", b.log.String())
	}
	if got := b.sim.Received(); got.Documents != 2 || got.Duplicates != 0 {
		t.Errorf("MH received %+v", got)
	}
	b.fsck(2, 1)
}
