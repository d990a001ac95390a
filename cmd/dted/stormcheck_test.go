package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/engine/dte"
	kept "dtegate/engine/record"
	"dtegate/plugins/plugintest"
	"dtegate/storage"
	"dtegate/storage/disktest"
	"dtegate/storage/storetest"
)

// score is the result of a storm. Tills add violations too.
type score struct {
	mu                                               sync.Mutex
	stores, cuts, restarts, documents, checks        int
	opened, feed, backups, copies, replayed, grepped int
	violations                                       []string
}

func (s *score) String() string {
	return fmt.Sprintf("%d power cuts, %d of them restarted by the appliance, in %d stores with %d documents; %d "+
		"checks: %d stores opened and walked, "+
		"%d announcements, %d backups, %d second copies made stores again, %d documents replayed, %d files without a "+
		"secret; %d violations",
		s.cuts, s.restarts, s.stores, s.documents, s.checks, s.opened, s.feed, s.backups, s.copies, s.replayed,
		s.grepped, len(s.violations))
}

func (s *score) violated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.violations) > 0
}

func (s *storm) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.score.mu.Lock()
	s.score.violations = append(s.score.violations, text)
	s.score.mu.Unlock()
	s.t.Errorf("violation: %s", text)
}

// check counts a check, and a violation unless ok.
func (s *storm) check(well bool, format string, args ...any) {
	s.score.checks++
	if !well {
		s.violation(format, args...)
	}
}

// inspect opens the store on a disk that a power cut left, and compares it with the answers of tills and the seals of
// MH before the cut. It checks backups and the second copy in one case of ten.
func (s *storm) inspect(disk *disktest.Disk, answers []*given, sealed []string) {
	store, err := storage.Open(s.on(disk))
	if err != nil {
		s.violation("the store does not open: %v", err)
		return
	}
	s.score.opened++
	report, err := store.Fsck(context.Background())
	s.check(err == nil, "fsck: %v", err)
	if err == nil {
		for _, p := range report.Problems {
			s.violation("P1: fsck: %v", p)
		}
	}
	announced := s.announced(store)
	for _, a := range answers {
		s.stored(store, a, announced)
	}
	for _, code := range sealed {
		_, err := s.entry(store, code)
		s.check(err == nil, "P4: MH sealed %s, the store has it not: %v", code, err)
	}
	s.check(store.Close() == nil, "the store does not close")
	if s.score.cuts%10 == 0 {
		s.backed(disk)
		s.copied(disk, answers)
	}
}

func (s *storm) entry(store *storage.Store, text string) (storage.Entry, error) {
	code, err := dte.ParseCode(text)
	if err != nil {
		return storage.Entry{}, err
	}
	return store.Get(storage.Code(code))
}

// announced returns how often each document is in the feed of late results.
func (s *storm) announced(store *storage.Store) map[storage.Code]int {
	times := make(map[storage.Code]int)
	for after := uint64(0); ; {
		list, err := store.Changes(after, 500)
		s.check(err == nil, "the feed: %v", err)
		for _, a := range list {
			s.check(a.Sequence > after, "the feed goes from %d to %d", after, a.Sequence)
			after = a.Sequence
			times[a.Code]++
			s.score.feed++
		}
		if len(list) == 0 {
			return times
		}
	}
}

// stored: every answered document is there, with its number and its bytes; its later result was announced once.
func (s *storm) stored(store *storage.Store, a *given, announced map[storage.Code]int) {
	e, err := s.entry(store, a.code)
	s.check(err == nil, "P2: %s was answered %s %s, and is gone: %v", a.key, a.code, a.number, err)
	if err != nil {
		return
	}
	h, err := kept.DecodeHead(e)
	s.check(err == nil && h.ControlNumber == a.number && strings.HasSuffix(a.number, fmt.Sprintf("%015d", e.Number)),
		"P1, P2: %s was %s, is number %d: %v", a.code, a.number, e.Number, err)
	if err != nil {
		return
	}
	jws, err := kept.SignedForm(store, e.Code, h)
	s.check(err == nil && (string(jws) == a.jws || a.estado == "CONTINGENCIA" && h.Form == kept.FormNormal),
		"P2: %s has other bytes than were answered: %v", a.code, err)
	estado := kept.Estado(e.State)
	s.check(estado == a.estado || a.estado == "CONTINGENCIA", "P2: %s was %s, is %s", a.code, a.estado, estado)
	if a.estado == "CONTINGENCIA" && estado != a.estado {
		s.check(announced[e.Code] == 1, "%s was deferred and is %s: announced %d times", a.code, estado,
			announced[e.Code])
	}
	s.check(announced[e.Code] <= 1, "%s was announced %d times", a.code, announced[e.Code])
}

// backed: a folder that has the name of a backup is a backup. The last three are checked.
func (s *storm) backed(disk *disktest.Disk) {
	for n := s.backups; n > max(0, s.backups-3); n-- {
		name := fmt.Sprint("backup-", n)
		if _, err := disk.Stat(name); err == nil {
			_, err := storage.CheckBackup(context.Background(), name, s.on(disk), nil)
			s.check(err == nil, "%s is no backup: %v", name, err)
			s.score.backups++
		}
	}
}

// copied: the second copy makes a store that holds every answered document.
func (s *storm) copied(disk *disktest.Disk, answers []*given) {
	if _, err := disk.Stat("copy"); err != nil {
		return // the cut came before the appliance made a copy
	}
	o := s.on(disk)
	o.Dir, o.MarkPath = "rebuilt", "rebuilt.mark"
	made, err := storage.Assemble(context.Background(), storage.Sources{Copy: "copy"}, o, nil)
	if errors.Is(err, storage.ErrNoStore) && len(answers) == 0 {
		return
	}
	s.check(err == nil && len(storetest.Missing(made)) == 0, "the second copy makes no store: %v, %+v", err, made)
	if err != nil {
		return
	}
	store, err := storage.Open(o)
	if err != nil {
		s.violation("the store of the second copy does not open: %v", err)
		return
	}
	for _, a := range answers {
		_, err := s.entry(store, a.code)
		s.check(err == nil, "P11: %s is not in the second copy: %v", a.code, err)
	}
	s.check(store.Close() == nil, "the store of the second copy does not close")
	s.score.copies++
}

// secrets: no file of the disk has a secret in clear.
func (s *storm) secrets(disk *disktest.Disk) {
	for _, name := range disk.Files() {
		f, err := disk.Open(name)
		if err != nil {
			s.violation("reading %s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(f)
		s.check(err == nil, "reading %s: %v", name, err)
		for what, secret := range secrets {
			s.check(!bytes.Contains(text, []byte(secret)), "P9: %s holds %s", name, what)
		}
		s.score.grepped++
	}
}

// keep writes a disk into var/storm.
func (s *storm) keep(disk *disktest.Disk) {
	folder := filepath.Join(plugintest.Root(s.t), "var", "storm")
	err := os.RemoveAll(folder)
	if err == nil {
		_, err = vfs.Clone(disk, vfs.Default, "", folder)
	}
	s.t.Logf("the disk is kept in %s: %v", folder, err)
}

// settle waits until MH has sealed or refused every answered document, and compares the documents with MH's.
func (s *storm) settle() {
	for _, a := range s.answers {
		for deadline := time.Now().Add(time.Minute); ; pause(20 * time.Millisecond) {
			status, body, err := s.get("/dte/documento/"+a.code, 1)
			if err == nil && status == http.StatusOK {
				r := decode(s.t, body)
				if r.Estado == "CONTINGENCIA" && time.Now().Before(deadline) {
					continue
				}
				held, _ := s.sim.Document(a.code)
				s.check(r.Estado == "REJECTED" && !held.Accepted || r.Estado == "PROCESSED" && held.Accepted &&
					bytes.Equal(held.Document, r.JSON),
					"P4, P6: %s is %s; MH accepted it: %v", a.code, r.Estado, held.Accepted)
				break
			}
			if time.Now().After(deadline) {
				s.violation("%s is not to be had: %d %v", a.code, status, err)
				break
			}
		}
	}
	got := s.sim.Received()
	s.check(got.Duplicates == 0, "P4: MH received %+v", got)
	for _, breach := range s.sim.Audit() {
		s.violation("MH saw: %s", breach)
	}
}

// replay: the rule that a document names makes the same bytes from its facts again.
func (s *storm) replay() {
	day := dte.Date(time.Now())
	req, err := http.NewRequest(http.MethodGet, "http://"+s.ops+"/admin/rules/replay?from="+
		dte.Date(time.Now().AddDate(0, 0, -1))+"&to="+day, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testAdmin)
	status, body, err := do(http.DefaultClient, req)
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	var last struct {
		Replayed map[string]int `json:"replayed"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	}
	s.check(err == nil && status == http.StatusOK && len(last.Replayed) == 1 &&
		last.Replayed["identical"] >= len(s.answers), "P7: %d documents replayed: %d %v %.300s", len(s.answers), status,
		err, body)
	s.score.replayed += last.Replayed["identical"]
}
