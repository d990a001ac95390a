package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/storage"
	"dtegate/storage/disktest"
	"dtegate/storage/disktest/mounted"
)

var (
	stormFor  = flag.Duration("storm", 0, "cut the power of running appliances for so long; see make proof")
	stormSeed = flag.Uint64("storm-seed", 1, "of the first store of the storm")
)

// TestStorm cuts the power of whole appliances, again and again. dted runs as it is installed, on a file system that
// forgets what was not synced; tills sell, MH is hostile, backups are made. The seed says when power fails and what the
// disk loses; what the kernel runs when, it does not say: a seed that failed may need some runs to fail again. The disk
// of the first violation is kept as a folder, var/storm, for dtectl fsck.
//
// Each cut is checked in this process (storm.inspect): the disk as it was left is opened, walked, and compared with
// what the tills and MH have. After one cut in some fifty the appliance itself starts on it.
func TestStorm(t *testing.T) {
	t.Parallel()
	unmount, err := mounted.Mount(disktest.New(disktest.Strict), t.TempDir())
	if err != nil {
		skip.Test(t, "mount", "TestMonth and TestCrash cut the power in the process: ", err)
	}
	if err := unmount(); err != nil {
		t.Fatal(err)
	}
	var all score
	begin := time.Now()
	for seed := *stormSeed; seed == *stormSeed || time.Since(begin) < *stormFor; seed++ {
		lives := 1
		if *stormFor > 0 {
			lives = 12
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { playStorm(t, seed, lives, &all) })
		if *stormFor > 0 {
			t.Logf("%v, seed %d: %v", time.Since(begin).Round(time.Second), seed, &all)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%v, seeds from %d: %v", time.Since(begin).Round(time.Second), *stormSeed, &all)
}

// storm is a branch whose power fails. Its tills repeat a sale until it is answered.
type storm struct {
	*branch
	r       *rand.Rand
	score   *score
	disk    *disktest.Disk
	at      string // where it is mounted
	unmount func() error

	mu      sync.Mutex
	life    int // an answer of an earlier life that comes in now was never given
	answers []*given
	backups int
}

// given is what a till was answered.
type given struct{ key, code, number, estado, jws string }

// playStorm runs a store through some lives, each of which ends with a power cut, and then compares everything with
// everything.
func playStorm(t *testing.T, seed uint64, lives int, all *score) {
	var shipped []string // in the store, beside the everyday rules; each start reads them
	if *stormFor > 0 {
		shipped = everyRule
	}
	s := &storm{branch: newBranch(t, shipped...), r: rand.New(rand.NewPCG(seed, 24)), score: all,
		disk: disktest.New(disktest.AllRules[seed%3])}
	s.at = filepath.Join(s.dir, "disk")
	text, err := os.ReadFile(filepath.Join(s.dir, "dted.toml"))
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.NewReplacer(`data = "data"`, `data = "disk/data"`, `mark = "mark"`, `mark = "disk/mark"`+
		"\nsecond_copy = \"disk/copy\"").Replace(string(text))
	s.write("dted.toml", []byte(moved))
	if err := os.Mkdir(s.at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := storage.Create(s.on(s.disk)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { // if the test was interrupted
		stop()
		if s.cmd != nil {
			s.kill()
			_ = s.unmount()
		}
	})
	tills := s.open(ctx)
	for range lives {
		s.live()
		s.powerCut()
	}
	s.chaos(simulator.Chaos{LotMS: 50})
	s.up()
	stop()
	tills.Wait()
	s.settle()
	s.replay()
	s.powerCut()
	all.stores++
	all.documents += len(s.answers)
}

// on returns the options with which this process opens the store on a disk.
func (s *storm) on(disk *disktest.Disk) storage.Options {
	return storage.Options{Dir: "data", MarkPath: "mark", FS: disk, Now: time.Now, Fatal: func(m string) { panic(m) }}
}

// each is how many sales a till makes in a life; then it repeats them. Every cut checks every document.
const each = 3

// open has six tills sell until the context ends and each has its last answer.
func (s *storm) open(ctx context.Context) *sync.WaitGroup {
	var wg sync.WaitGroup
	for till := range 6 {
		r := rand.New(rand.NewPCG(s.r.Uint64(), 1))
		wg.Go(func() {
			for made := 0; ctx.Err() == nil; {
				s.mu.Lock()
				most := each * (s.life + 1)
				s.mu.Unlock()
				k := made
				if made >= most || r.IntN(5) == 0 { // a till that is not sure of the answer
					k = r.IntN(min(made+1, most))
				}
				s.sell(till%3+1, fmt.Sprintf("till %d sale %d", till, k), hammerSale(till, k))
				made = max(made, k+1)
				pause(time.Duration(r.IntN(40)) * time.Millisecond)
			}
		})
	}
	return &wg
}

var stormClient = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// sell repeats a sale until it is answered in a life that is not over.
func (s *storm) sell(point int, key, body string) {
	for {
		s.mu.Lock()
		life := s.life
		s.mu.Unlock()
		req, err := http.NewRequest(http.MethodPost, "http://"+s.api+"/dte/dte01", strings.NewReader(body))
		if err != nil {
			s.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("x-api-token", fmt.Sprintf("%s%d", testToken, point))
		req.Header.Set("Idempotency-Key", key)
		status, answer, err := do(stormClient, req)
		switch {
		case err == nil && status == http.StatusCreated:
			if s.note(life, key, decode(s.t, answer)) {
				return
			}
		case err == nil && status != http.StatusServiceUnavailable:
			s.violation("%s is answered %d %.300s", key, status, answer)
			return
		}
		pause(5 * time.Millisecond)
	}
}

// note keeps an answer of a life that is not over, and compares it with earlier answers for the key.
func (s *storm) note(life int, key string, r record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if life != s.life {
		return false
	}
	now := &given{key, r.Code, r.ControlNumber, r.Estado, r.JWS}
	for _, before := range s.answers {
		switch same := before.key == key; {
		case same && (before.code != now.code || before.number != now.number || before.estado == "PROCESSED" &&
			before.jws != now.jws):
			s.violation("P2, P3: %s was %s %s %s, is %s %s %s", key, before.code, before.number, before.estado,
				now.code, now.number, now.estado)
		case !same && (before.code == now.code || before.number == now.number):
			s.violation("P1, P3: %s and %s are one document: %s %s", key, before.key, now.code, now.number)
		case same:
			return true
		}
	}
	s.answers = append(s.answers, now)
	return true
}

// live starts the appliance, and for some time checks what a power cut would leave now.
func (s *storm) live() {
	s.chaos(simulator.Chaos{LotMS: 50})
	s.up()
	looks := 40
	if *stormFor == 0 {
		looks = 25
	}
	for range looks {
		switch s.r.IntN(16) {
		case 0, 1, 2, 3:
			s.chaos(s.weather())
		case 4:
			s.backup()
		}
		pause(time.Duration(s.r.IntN(15_000)) * time.Microsecond)
		s.look(s.disk)
	}
}

func (s *storm) weather() simulator.Chaos {
	n := 1 + s.r.IntN(3)
	of := []simulator.Chaos{{}, {}, {}, {Outage: true}, {Outage: true}, {Outage: true}, {LostAnswers: n},
		{LostRequests: n}, {ServerErrors: n}, {HalfAnswers: n}, {ExpiredTokens: n}, {Reject: 1}}
	c := of[s.r.IntN(len(of))]
	c.LotMS = 50
	return c
}

// backup makes the appliance begin a backup, and does not wait.
func (s *storm) backup() {
	s.backups++
	req, err := http.NewRequest(http.MethodPost, "http://"+s.ops+"/admin/backup", strings.NewReader(fmt.Sprintf(
		`{"dir":%q}`, filepath.Join(s.at, fmt.Sprint("backup-", s.backups)))))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testAdmin)
	go func() { _, _, _ = do(http.DefaultClient, req) }() // the power may fail before the answer
}

// up starts the appliance on what the previous cut left.
func (s *storm) up() {
	s.plug()
	s.start()
	if s.life > 0 {
		s.score.restarts++
	}
}

func (s *storm) plug() {
	s.t.Helper()
	var err error
	if s.unmount, err = mounted.Mount(s.disk, s.at); err != nil {
		s.t.Fatal(err)
	}
}

// look checks what a power cut would leave now.
func (s *storm) look(disk *disktest.Disk) *disktest.Disk {
	s.mu.Lock()
	answers := s.answers
	s.mu.Unlock()
	var sealed []string
	for code := range s.sim.Accepted() {
		sealed = append(sealed, code)
	}
	share := []int{0, 100, s.r.IntN(101)}[s.r.IntN(3)]
	left := disk.Crash(share, rand.New(rand.NewPCG(s.r.Uint64(), 2)))
	s.score.cuts++
	before := s.score.violated()
	s.inspect(left.Crash(0, nil), answers, sealed)
	if !before && s.score.violated() {
		s.keep(left)
	}
	return left
}

// powerCut stops the disk, then the appliance, and leaves the disk as the cut left it.
func (s *storm) powerCut() {
	s.mu.Lock()
	s.life++
	s.mu.Unlock()
	stopped := s.disk.Kill()
	s.kill()
	if err := s.unmount(); err != nil {
		s.t.Fatal(err)
	}
	s.disk = s.look(stopped)
	s.secrets(s.disk)
	s.disk.SetRules(disktest.AllRules[s.r.IntN(3)])
}
