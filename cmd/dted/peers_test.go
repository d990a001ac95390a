package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/sign"
	"dtegate/plugins/plugintest"
)

var peers = flag.Bool("peers", false, "measure the appliance beside the services of deploy/bench/peers; run it alone")

// contender issues the sale of ten lines.
type contender struct {
	name      string
	bench     *bench
	processes []int // the roots: children count
	db        *postgres

	sold    int           // in all
	counted int           // of those, in the rounds
	spent   time.Duration // of the processor, by all of its processes
	around  time.Duration // of the processor, by the tills and the simulated MH in its turns
	turns   []float64     // documents a second
	latency []time.Duration
}

// TestPeers has sixteen tills sell to the appliance and to its peers in short turns, with MH online for all, and prints
// a table. All share the machine with the tills and with the simulated MH. A peer's database counts as a part of the
// peer.
func TestPeers(t *testing.T) {
	skip.Unless(t, *peers, "make bench-peers")
	const rounds = 30
	ours := &contender{name: "dted", bench: &bench{branch: newBranch(t, everyRule...)}, sold: 1}
	b := ours.bench
	b.startLazily()
	defer b.stop()
	ours.processes = []int{b.cmd.Process.Pid}
	form := b.sold(sale10).JSON
	all := []*contender{ours, goPeer(t, b, form), nodePeer(t, b, form)}
	all = slices.DeleteFunc(all, func(c *contender) bool { return c == nil })
	for _, c := range all[1:] {
		answer := c.first(t)
		if got, want := amounts(t, answer.JSON), amounts(t, form); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s computes\n%v\nthe appliance\n%v", c.name, got, want)
		}
	}
	for _, c := range all {
		c.turn(t) // pay one-time costs first
		c.counted, c.turns, c.latency, c.around, c.spent = 0, nil, nil, 0, -treeSpent(t, c.processes)
	}
	for i := range rounds {
		for k := range all {
			all[(i+k)%len(all)].turn(t)
		}
	}
	sold := 0
	fmt.Printf("| %d rounds of %v each | per second of CPU | with tills and MH | documents/s | dted's / these | p50 | "+
		"p99 |\n|---|--:|--:|--:|--:|--:|--:|\n", rounds, oneTurn)
	for _, c := range all {
		c.spent += treeSpent(t, c.processes) // including the time between its turns
		sold += c.sold
		ratios := make([]float64, rounds)
		for i := range ratios {
			ratios[i] = ours.turns[i] / c.turns[i]
		}
		slices.Sort(ratios)
		slices.Sort(c.turns)
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.2f | %v | %v |\n", c.name, float64(c.counted)/c.spent.Seconds(),
			float64(c.counted)/(c.spent+c.around).Seconds(),
			c.turns[rounds/2], ratios[rounds/2], quantile(c.latency, .5).Round(time.Millisecond), quantile(c.latency,
				.99).Round(time.Millisecond))
		if c.db != nil {
			c.db.audit(t, c)
		}
	}
	if got := b.sim.Received(); got.Documents != sold || got.Duplicates != 0 || got.Events != 0 {
		t.Errorf("%d documents were sold online; MH received %+v", sold, got)
	}
}

const oneTurn = time.Second

// turn sells for one turn, with sixteen tills at eight points of sale.
func (c *contender) turn(t *testing.T) {
	var mu sync.Mutex
	var tills sync.WaitGroup
	n, began, before := 0, time.Now(), selfSpent(t)
	for w := range flight {
		tills.Go(func() {
			for !t.Failed() && time.Since(began) < oneTurn {
				took := timed(func() { c.bench.sell(t, w%8+1) })
				mu.Lock()
				n++
				c.latency = append(c.latency, took)
				mu.Unlock()
			}
		})
	}
	tills.Wait()
	c.turns = append(c.turns, float64(n)/time.Since(began).Seconds())
	c.sold, c.counted, c.around = c.sold+n, c.counted+n, c.around+selfSpent(t)-before
	if t.Failed() {
		t.Fatalf("%s does not sell", c.name)
	}
}

// first sells one document and returns it.
func (c *contender) first(t *testing.T) record {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+c.bench.api+"/dte/dte01", strings.NewReader(sale10))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-api-token", testToken+"1")
	status, answer, err := do(http.DefaultClient, req) // otherwise the client compares with the appliance's contract
	if err != nil || status != http.StatusCreated {
		t.Fatalf("%s: %d %v %.500s", c.name, status, err, answer)
	}
	c.sold++
	return decode(t, answer)
}

// amounts is what a document has computed.
func amounts(t *testing.T, document []byte) (parts struct{ CuerpoDocumento, Resumen any }) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if err := d.Decode(&parts); err != nil || parts.Resumen == nil {
		t.Fatalf("%v: %.300s", err, document)
	}
	return parts
}

func goPeer(t *testing.T, b *bench, form []byte) *contender {
	program := filepath.Join(t.TempDir(), "dtepeer")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join(plugintest.Root(t), "deploy", "bench", "peers", "go")
	if out, err := build.CombinedOutput(); unreachable.Match(out) {
		skip.Test(t, "network", string(out))
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return newPeer(t, b, "Go, net/http, PostgreSQL", "M002", form, exec.Command(program))
}

// nodePeer is nil where there is no Node.
func nodePeer(t *testing.T, b *bench, form []byte) *contender {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			fmt.Printf("no %s on this machine: no Node peer\n", program)
			return nil
		}
	}
	root := plugintest.Root(t)
	dir := filepath.Join(root, "var", "peers", "node")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "deploy", "bench", "peers", "node"))); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); unreachable.Match(out) {
		fmt.Printf("the libraries of the Node peer cannot be fetched, no Node peer: %s\n", out)
		return nil
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return newPeer(t, b, "Node, Fastify, PostgreSQL", "M003", form, exec.Command("node", filepath.Join(dir,
		"server.js")))
}

// newPeer starts a peer as another establishment of the same issuer, with a database of its own.
func newPeer(t *testing.T, b *bench, name, establishment string, form []byte, cmd *exec.Cmd) *contender {
	db := newPostgres(t)
	dir, address := t.TempDir(), cmdtest.Port(t)
	for file, data := range map[string][]byte{"form.json": form, "key.pem": signingPEM(t, b.key)} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tokens := make([]string, 8)
	for i := range tokens {
		tokens[i] = fmt.Sprint(testToken, i+1)
	}
	cmd.Env = append(os.Environ(), "PEER_LISTEN="+address, "PEER_MH=http://"+b.mh, "PEER_NIT="+testNIT,
		"PEER_PASSWORD=secreto-mh.2026",
		"PEER_ESTABLISHMENT="+establishment, "PEER_KEY="+filepath.Join(dir, "key.pem"), "PEER_FORM="+filepath.Join(dir,
			"form.json"),
		"PEER_TOKENS="+strings.Join(tokens, " "), "PEER_DB=host="+db.dir+" dbname=postgres user=peer")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaited(t, name, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return &contender{name: name, bench: &bench{branch: &branch{t: t, api: address}}, processes: []int{cmd.Process.Pid,
		db.pid}, db: db}
}

// signingPEM is the key of the branch as a service reads it.
func signingPEM(t *testing.T, key *sign.Key) []byte {
	t.Helper()
	file, err := sign.DemoCertificate(key, testNIT, "password", time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	var certificate struct {
		Private string `xml:"privateKey>encodied"`
	}
	if err := xml.Unmarshal(file, &certificate); err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(certificate.Private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func awaited(t *testing.T, name string, up func() error) {
	t.Helper()
	err := up()
	for deadline := time.Now().Add(time.Minute); err != nil &&
		time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		err = up()
	}
	if err != nil {
		t.Fatalf("%s does not come up: %v", name, err)
	}
}

// selfSpent returns the processor time of this process, which runs the tills and MH.
func selfSpent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// treeSpent returns the processor time of processes and of all their descendants, including those that have ended.
func treeSpent(t *testing.T, roots []int) (sum time.Duration) {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children, own := make(map[int][]int), make(map[int]time.Duration)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		// from the state on, field 3 of proc(5)
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		for _, ticks := range fields[11:15] { // user and system time, its own and that of ended children
			n, _ := strconv.Atoi(ticks)
			own[pid] += time.Duration(n) * tick
		}
	}
	for pids := slices.Clone(roots); len(pids) > 0; pids = pids[1:] {
		sum += own[pids[0]]
		pids = append(pids, children[pids[0]]...)
	}
	return sum
}
