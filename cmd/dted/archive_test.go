package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"dtegate/engine/archive/archivetest"
)

// withArchive gives a real S3 store to a branch that has not started yet.
func (b *branch) withArchive() *archivetest.Store {
	b.t.Helper()
	s := archivetest.Start(b.t)
	b.write("archive.secret", []byte(archivetest.Secret+"\n"))
	b.section(fmt.Sprintf("[archive]\nendpoint = %q\nbucket = %q\naccess_key = %q\nsecret_file = "+
		"\"archive.secret\"\npath_style = true\n",
		s.Endpoint(b.t), archivetest.Bucket, archivetest.Access))
	return s
}

// section adds a section to the configuration.
func (b *branch) section(text string) {
	b.t.Helper()
	name := filepath.Join(b.dir, "dted.toml")
	before, err := os.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write("dted.toml", append(before, "\n"+text...))
}

// dtectl runs the operator's tool and returns its output, and whether it ended with status 0.
func (b *branch) dtectl(args ...string) (said string, ok bool) {
	b.t.Helper()
	path, err := operator()
	if err != nil {
		b.t.Fatal(err)
	}
	command := exec.Command(path, append([]string{"-c", filepath.Join(b.dir, "dted.toml")}, args...)...)
	// an operator behind sudo, on a box with the wrong zone
	command.Env = append(os.Environ(), "SUDO_USER="+operatorName, "TZ=Asia/Tokyo")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	for _, at := range unzoned(string(out)) {
		b.t.Errorf("dtectl %s says %q without its zone", strings.Join(args, " "), at)
	}
	return string(out), err == nil
}

// operatorName is the name of the person who runs dtectl in tests.
const operatorName = "eva"

var timeOfDay = regexp.MustCompile(`(?m)\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(.{0,7})`)

// unzoned returns the times in a text that lack their zone, unless the text names the zone for all of them.
func unzoned(said string) (list []string) {
	if strings.Contains(said, "de El Salvador") {
		return nil
	}
	for _, at := range timeOfDay.FindAllStringSubmatch(said, -1) {
		if !regexp.MustCompile(`^(Z| ?[+-]\d\d:?\d\d)`).MatchString(at[3]) {
			list = append(list, at[0])
		}
	}
	return list
}

// archived waits until nothing is left to archive.
func (b *branch) archived() {
	b.t.Helper()
	soon(b.t, "nothing waits for the archive", func() bool { return b.owed().Delivery.Archive == 0 })
}

// The operator compares store and archive, with the appliance running and stopped, and has missing objects put back.
func TestFsck_Archive(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	bucket := b.withArchive()
	b.start()
	t.Cleanup(b.kill)
	var keys []string // of the files, json and pdf in turns
	var codes []string
	for range 6 {
		r := b.sold(sale10)
		codes, keys = append(codes, r.Code), append(keys, r.JSONURL, r.PDFURL)
	}
	b.archived()
	for _, k := range keys {
		if len(bucket.Held(t, k)) < 1000 {
			t.Fatalf("%s is not archived", k)
		}
	}
	said, ok := b.dtectl("fsck", "--archive")
	if !ok || said != "documents 6 archived, 12 objects\nno problem found\n" {
		t.Fatalf("%v\n%s", ok, said)
	}

	hands, err := minio.New(strings.TrimPrefix(bucket.Endpoint(t), "http://"), &minio.Options{Region: "us-east-1",
		BucketLookup: minio.BucketLookupPath,
		Creds:        credentials.NewStaticV4(archivetest.Access, archivetest.Secret, "")})
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, text string) {
		t.Helper()
		if _, err := hands.PutObject(t.Context(), archivetest.Bucket, key, strings.NewReader(text), int64(len(text)),
			minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(key string) {
		t.Helper()
		if err := hands.RemoveObject(t.Context(), archivetest.Bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	folder := strings.TrimSuffix(keys[0], codes[0]+".json")
	another, stray, misplaced := folder+"9F2C3B1A-0000-4000-8000-000000000001.json", "tienda/DTES/test/leeme.txt",
		"tienda/DTES/test/"+filepath.Base(keys[3])
	remove(keys[0])
	remove(keys[3])
	put(keys[4], "{}")
	put(another, "{}")
	put(stray, "hola")
	put(misplaced, "%PDF")
	rotten := bucket.Held(t, keys[7])
	rotten[len(rotten)/2] ^= 1 // without the store's knowledge: only reading shows it
	if err := os.WriteFile(bucket.Path(keys[7]), rotten, 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"altered " + keys[4], "foreign " + another, "foreign " + misplaced, "foreign " + stray,
		"missing " + keys[0], "missing " + keys[3]}
	verify := func(want []string, args ...string) {
		t.Helper()
		said, ok := b.dtectl(append([]string{"fsck", "--archive"}, args...)...)
		got := regexp.MustCompile(`(?m)^(missing|altered|foreign) +(\S+)`).FindAllString(said, -1)
		for i, line := range got {
			got[i] = strings.Join(strings.Fields(line), " ")
		}
		slices.Sort(got)
		if slices.Sort(want); ok || !slices.Equal(got, want) || !strings.Contains(said, fmt.Sprintf("%d missing",
			strings.Count(strings.Join(want, " "), "missing "))) {
			t.Errorf("%v: %v\n%s\nwant\n%s", args, ok, said, strings.Join(want, "\n"))
		}
	}
	without := func(s string) []string {
		return slices.DeleteFunc(slices.Clone(want), func(line string) bool { return strings.Contains(line, s) })
	}
	verify(want)
	verify(append(slices.Clone(want), "altered "+keys[7]), "--read")
	verify(without(another), "--shared")

	// The appliance puts missing objects back; people must handle the others.
	said, ok = b.dtectl("fsck", "--archive", "--repair")
	if ok || !strings.Contains(said, "2 will be tried again") {
		t.Errorf("%v %s", ok, said)
	}
	b.archived()
	verify(without("missing"))
	b.stop()
	verify(without("missing"))
	if said, ok = b.dtectl("fsck", "--archive", "--repair"); ok || !strings.Contains(said, "needs the running appliance") {
		t.Errorf("%v %s", ok, said)
	}
	// An altered object: somebody removes it, then it is missing.
	for _, k := range []string{keys[4], another, stray, misplaced} {
		remove(k)
	}
	verify([]string{"missing " + keys[4]})
	b.start()
	b.dtectl("fsck", "--archive", "--repair")
	b.archived()
	if said, ok = b.dtectl("fsck", "--archive"); !ok {
		t.Error(said)
	}
	if said, ok = b.dtectl("fsck"); ok || !strings.Contains(said, "stopped") {
		t.Errorf("%v %s", ok, said)
	}
	// A store that does not answer, or does not admit the box, has lost nothing.
	bucket.Kill()
	if said, ok = b.dtectl("fsck", "--archive"); ok || strings.Contains(said, "missing") {
		t.Errorf("with the store down: %v %s", ok, said)
	}
	bucket.Run(t)
	b.stop()
	b.write("archive.secret", []byte("otra\n"))
	if said, ok = b.dtectl("fsck", "--archive"); ok || strings.Contains(said, "missing") ||
		!strings.Contains(said, "does not take this appliance") {
		t.Errorf("with a wrong secret: %v %s", ok, said)
	}
}

// The operator sees the given-up deliveries, retries them, or takes them off the list.
func TestOperator_GivenUp(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	box := b.withInbox()
	b.start()
	t.Cleanup(b.kill)
	box.answer(550)
	codes := []string{b.sold(sale10).Code, b.sold(sale10).Code}
	list := func() string { said, _ := b.dtectl("delivery", "list"); return said }
	soon(t, "both are given up", func() bool { return strings.Count(list(), "550") == 2 })
	if said := list(); !strings.Contains(said, codes[0]) || !strings.Contains(said, "ana@example.com") {
		t.Error(said)
	}
	if said, ok := b.dtectl("delivery", "forget", codes[0]); !ok || said != "1 forgotten\n" || strings.Contains(list(),
		codes[0]) {
		t.Errorf("%v %s", ok, said)
	}
	if said, ok := b.dtectl("delivery", "retry", codes[0]); ok || !strings.Contains(said, "nothing was done") {
		t.Errorf("%v %s", ok, said)
	}
	box.answer(0)
	if said, ok := b.dtectl("delivery", "retry", "--all"); !ok || said != "1 will be tried again\n" {
		t.Errorf("%v %s", ok, said)
	}
	soon(t, "it is mailed", func() bool {
		box.mu.Lock()
		defer box.mu.Unlock()
		return len(box.letters) == 1 && box.letters[0].Files[0] == codes[1]+".pdf"
	})
	soon(t, "it is off the list", func() bool { return list() == "nothing was given up\n" })
	if said, ok := b.dtectl("delivery", "retry", "00000000-0000-4000-8000-000000000000"); ok ||
		!strings.Contains(said, "404") {
		t.Errorf("%v %s", ok, said)
	}
	var acts []string
	for _, a := range b.acts() {
		acts = append(acts, a.What+" "+a.Target+" "+a.Who+" "+a.Outcome)
	}
	by := b.operated().who
	if !slices.Equal(acts[:4], []string{"delivery.retry 00000000-0000-4000-8000-000000000000 " + by + " refused",
		"delivery.retry " + codes[1] + " " + by + " done",
		"delivery.retry " + codes[0] + " " + by + " nothing", "delivery.forget " + codes[0] + " " + by + " done"}) {
		t.Errorf("the trail is %q", acts)
	}
	b.stop()
}
