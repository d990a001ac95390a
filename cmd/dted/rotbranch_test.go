package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/boxtest"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// atRest is a branch that is stopped after it has sold, with a second copy, a backup and TLS.
type atRest struct {
	*boxtest.Box
	sim  *simulator.Simulator
	sale string            // what a till sends
	sold map[string][]byte // answers by code
	// until, if set, is waited for before the appliance ends; last is the latest sale.
	until func(last record) bool
}

const soldAtRest = 16

// newStanding makes a branch that has not started yet, and its authority.
func newStanding(t *testing.T) *atRest {
	t.Helper()
	a := &atRest{Box: boxtest.New(t, "127.0.0.1:1"), sale: sale01, sold: make(map[string][]byte)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sim, mh := boxtest.Authority(t, a.Key)
	a.sim = sim
	a.Set("127.0.0.1:1\"", mh+"\"")
	a.Set("mark = \"mark\"\n", "mark = \"mark\"\ndisk_reserve = \"1MiB\"\n")
	a.Authority()
	a.Write("authority.password", []byte("secreto-mh.2026\n"))
	a.Write("box.key", []byte(strings.Repeat("5", 64)+"\n")) // after a flipped bit it is still a key
	secret := bytes.Repeat([]byte{9}, 32)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(testToken))
	must((&config.TokenFile{Secret: hex.EncodeToString(secret), Tokens: []config.Token{{ID: 1, Name: "caja",
		Hash:  hex.EncodeToString(mac.Sum(nil)),
		Point: 1, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}}}}).Save(a.At("tokens.toml")))
	return a
}

// newAtRest makes a branch with a second copy: eight documents are in tables and in the backup, eight in the log.
func newAtRest(t *testing.T) *atRest {
	t.Helper()
	a := newStanding(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a.Set("mark = \"mark\"\n", "mark = \"mark\"\nsecond_copy = \"copy\"\n")
	must(os.Mkdir(a.At("copy"), 0o700))
	for range 2 {
		r := a.run(soldAtRest / 2)
		if r.refused != nil || r.sale != "" {
			t.Fatalf("%v %s\n%s", r.refused, r.sale, r.log)
		}
		if _, err := os.Stat(a.At("backup")); err != nil {
			s, err := storage.Open(a.store())
			must(err)
			_, err = s.Backup(t.Context(), a.At("backup"), nil)
			must(err)
			must(s.Close())
		}
	}
	if len(a.sold) != soldAtRest {
		t.Fatalf("sold %d", len(a.sold))
	}
	return a
}

func (a *atRest) store() storage.Options {
	return storage.Options{Dir: a.At("data"), MarkPath: a.At("mark"), Now: time.Now}
}

// copied is the same branch in another folder.
func (a *atRest) copied(t *testing.T) *atRest {
	t.Helper()
	if err := a.sim.Reset(); err != nil {
		t.Fatal(err)
	}
	return &atRest{Box: a.Box.Copy(t), sim: a.sim, sale: a.sale, sold: a.sold}
}

// started is the result of a start.
type started struct {
	refused error
	log     string
	sale    string   // why a sale was refused; "" if all were issued
	numbers []string // of those that were issued
	lost    []string // documents that have changed
	unread  int      // documents that the branch reports as unreadable
}

// run starts the appliance in this process, reads the sold documents, sells this many more, and ends it.
func (a *atRest) run(sales int) (r started) {
	cfg, err := config.Load(a.Config())
	if err != nil {
		r.refused = err
		return r
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	log := new(bytes.Buffer)
	defer func() { r.log = log.String() }()
	d, err := open(ctx, cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		r.refused = err
		return r
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	till := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(method, path, body string) (int, []byte, error) {
		req, err := http.NewRequest(method, "https://"+d.api.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("x-api-token", testToken)
		return do(till, req)
	}
	for code, was := range a.sold {
		switch status, answer, err := ask(http.MethodGet, "/dte/documento/"+code, ""); {
		case err != nil || status >= 400 && status < 500 && status != http.StatusUnauthorized &&
			status != http.StatusForbidden:
			r.lost = append(r.lost, fmt.Sprintf("%s: %d %v %.200s", code, status, err, answer))
		case status >= 500:
			r.unread++
		case status == http.StatusOK && !bytes.Equal(answer, was):
			r.lost = append(r.lost, fmt.Sprintf("%s is now %.500s", code, answer))
		}
	}
	for range sales {
		status, answer, err := ask(http.MethodPost, "/dte/dte01", a.sale)
		if err != nil || status != http.StatusCreated {
			r.sale = fmt.Sprintf("%d %v %s", status, err, answer)
			break
		}
		var said struct{ Data record }
		if err := json.Unmarshal(answer, &said); err != nil {
			r.sale = err.Error()
			break
		}
		r.numbers = append(r.numbers, strings.TrimLeft(said.Data.ControlNumber[len(said.Data.ControlNumber)-15:], "0"))
		if sales > 1 {
			_, a.sold[said.Data.Code], _ = ask(http.MethodGet, "/dte/documento/"+said.Data.Code, "")
		}
		for end := time.Now().Add(40 * time.Second); a.until != nil && !a.until(said.Data) &&
			time.Now().Before(end); pause(10 * time.Millisecond) {
		}
	}
	till.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		r.refused = fmt.Errorf("it ends: %w", err)
	}
	return r
}

// operated returns the faults that dtectl doctor finds, and the output of dtectl fsck.
func (a *atRest) operated(t *testing.T) (doctor, fsck string) {
	t.Helper()
	path, err := operator()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(path, "-c", a.Config(), "doctor", "--json").Output()
	var list []struct{ Status, Check, What, Do string }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("doctor: %v\n%s", err, out)
	}
	for _, f := range list {
		// of the test's machine
		if f.Status != "ok" && !slices.Contains([]string{"certificate", "mark", "disk", "clock"}, f.Check) {
			doctor += fmt.Sprintf("%s: %s → %s\n", f.Check, f.What, f.Do)
		}
	}
	fsck, _ = a.dtectl(t, "fsck")
	return doctor, fsck
}

func (a *atRest) dtectl(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	path, err := operator()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, append([]string{"-c", a.Config()}, args...)...).CombinedOutput()
	return string(out), err == nil
}

// longer compares files by their length; of two lists of tables the later one counts.
func longer(a, b string) int {
	if strings.Contains(a, "MANIFEST") {
		return strings.Compare(a, b)
	}
	one, oneErr := os.Stat(a)
	other, otherErr := os.Stat(b)
	if oneErr != nil || otherErr != nil {
		return 0
	}
	return cmp.Compare(one.Size(), other.Size())
}

// judge compares the result of a damaged branch with the expected result.
func (a *atRest) judge(t *testing.T, want ended) {
	t.Helper()
	says := func(who, said, want string) {
		t.Helper()
		found := want != "" || said == ""
		for piece := range strings.SplitSeq(want, "***") {
			found = found && strings.Contains(said, piece)
		}
		if !found || strings.Contains(said, "corruption detail carrier") {
			t.Errorf("%s should say %q, and says\n%s", who, want, said)
		}
	}
	// Doctor refuses in the same words what only a start reads: TestDoctor_BrokenBoxes.
	if want.start == "" || want.doctor != "" {
		doctor, fsck := a.operated(t)
		says("doctor", doctor, want.doctor)
		if want.fsck == "" {
			want.fsck = "no problem found"
		}
		says("fsck", fsck, want.fsck)
	}
	r := a.run(1)
	refused := ""
	if r.refused != nil {
		refused = r.refused.Error()
	}
	says("the start", refused, want.start)
	if !strings.Contains(r.log, want.log) {
		t.Errorf("the log should say %q, and says\n%s", want.log, r.log)
	}
	switch {
	case want.start != "":
	case want.sale != "":
		says("the till", r.sale, want.sale)
	case r.sale != "" || !slices.Equal(r.numbers, []string{fmt.Sprint(soldAtRest + 1)}):
		t.Errorf("the next sale has number %v: %s", r.numbers, r.sale)
	}
	if len(r.lost) > 0 && want.mend == "" || r.unread > 0 && want.sale == "" {
		t.Errorf("%d documents cannot be read, others are not as they were: %s", r.unread, r.lost)
	}
	if want.mend == "" {
		return
	}
	if said, ok := a.dtectl(t, strings.Fields(want.mend)...); !ok {
		t.Errorf("dtectl %s: %s", want.mend, said)
	}
	if said, ok := a.dtectl(t, "fsck"); !ok || strings.Contains(said, "missing") {
		t.Errorf("after dtectl %s: %s", want.mend, said)
	}
	if said, _ := a.dtectl(t, "audit"); want.mend == repaired && strings.Count(said, "store.repair") != 1 {
		t.Errorf("the trail says after dtectl %s\n%s", want.mend, said)
	}
	s, err := storage.OpenReadOnly(a.store())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for code := range a.sold {
		c, err := dte.ParseCode(code)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Part(storage.Code(c), "normal"); err != nil {
			t.Errorf("after dtectl %s: %s: %v", want.mend, code, err)
		}
	}
}
