package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/archive"
)

type Doctor struct {
	JSON   bool `help:"Write one JSON array."`
	Rounds int  `default:"20" help:"Number of races, and of writes that are read back."`
}

const writers = 16

// Run races writers against the store and names the guarantees that the store breaks. It leaves small objects under
// fleet/v1/doctor/: only a store's owner can delete. Its exit status is 1 if a check fails.
func (c *Doctor) Run(ctx context.Context, top *Command) error {
	if c.Rounds < 1 {
		return errors.New("--rounds: at least 1")
	}
	centre, err := config.LoadCentre(top.Centre)
	if err != nil {
		return err
	}
	store, err := centre.OpenStore()
	if err != nil {
		return err
	}
	x := newExamination(store, writers, c.Rounds, time.Now)
	x.examine(ctx)
	if failed, err := term.Findings(c.JSON, x.findings); err != nil || failed == 0 {
		return err
	}
	return errors.New("checks fail: a chain must not be run on this store")
}

// examination checks what a chain needs of its store, above all: of several writers, one creates an object, and a read
// returns the latest object.
type examination struct {
	store           *archive.Archive
	writers, rounds int
	now             func() time.Time
	prefix          string // prefix of the keys of this examination
	findings        []term.Finding
}

// probeSize is the size of the objects written, in bytes: about the size of an order.
const probeSize = 2000

func newExamination(store *archive.Archive, writers, rounds int, now func() time.Time) *examination {
	return &examination{store: store, writers: writers, rounds: rounds, now: now, prefix: "fleet/v1/doctor/" +
		rand.Text() + "/"}
}

func (x *examination) note(status, check, do, format string, args ...any) {
	x.findings = append(x.findings, term.Finding{Status: status, Check: check, Do: do,
		What: fmt.Sprintf(format, args...)})
}

func (x *examination) examine(ctx context.Context) {
	if x.reach(ctx) {
		for _, check := range []func(context.Context){x.missing, x.once, x.race, x.readBack, x.list, x.clock} {
			check(ctx)
		}
	}
}

func probe(n byte) []byte { return bytes.Repeat([]byte{'a' + n%26}, probeSize) }

func (x *examination) fetch(ctx context.Context, key string) (archive.Held, error) {
	return x.store.Fetch(ctx, key, 2*probeSize)
}

func (x *examination) reach(ctx context.Context) bool {
	began := x.now()
	err := x.store.Create(ctx, x.prefix+"once", probe(0))
	switch {
	case errors.Is(err, archive.ErrSetup):
		x.note("fail", "reach", "look at endpoint, bucket, region and path_style, and at what the access key may do",
			"%v", err)
	case errors.Is(err, archive.ErrFull):
		x.note("fail", "reach", "make room in the store, or raise its quota", "%v", err)
	case err != nil:
		x.note("fail", "reach", "the store does not answer as it should: try again, then ask who runs it", "%v", err)
	default:
		x.note("ok", "reach", "", "an object of %d bytes was written in %v", probeSize,
			x.now().Sub(began).Round(time.Millisecond))
	}
	return err == nil
}

// missing checks that a read of a missing key answers 404: boxes poll for objects that do not exist yet.
func (x *examination) missing(ctx context.Context) {
	_, err := x.fetch(ctx, x.prefix+"missing")
	switch {
	case errors.Is(err, archive.ErrNotFound):
		x.note("ok", "missing", "", "a missing key answers 404")
	case errors.Is(err, archive.ErrSetup):
		x.note("fail", "missing", "allow s3:ListBucket on the bucket: without it stores answer 403 for a missing key",
			"a box could not know that there is nothing new: %v", err)
	default:
		x.note("fail", "missing", "boxes poll for objects that do not exist yet: the store must answer 404", "%v", err)
	}
}

// once checks that the second writer of a key is refused even without a race.
func (x *examination) once(ctx context.Context) {
	const do = "the store ignores If-None-Match: use another store, or a version that obeys it"
	err := x.store.Create(ctx, x.prefix+"once", probe(1))
	held, read := x.fetch(ctx, x.prefix+"once")
	switch {
	case err == nil:
		x.note("fail", "create once", do, "a second object was written over the first in spite of If-None-Match: *")
	case !errors.Is(err, archive.ErrExists):
		x.note("fail", "create once", do, "the second writer was not refused with 412: %v", err)
	case read != nil || !bytes.Equal(held.Data, probe(0)):
		x.note("fail", "create once", do, "the second writer was refused, but the first writer's object is gone (%v)",
			read)
	default:
		x.note("ok", "create once", "", "the second writer of a key is refused")
	}
}

// race lets many writers create one key at the same moment: one writer must win, and its bytes must remain.
func (x *examination) race(ctx context.Context) {
	var broken, undecided int
	for round := range x.rounds {
		key := fmt.Sprintf("%srace/%d", x.prefix, round)
		wins, winner, doubtful := 0, -1, 0
		for n, err := range x.raceOnce(ctx, key) {
			switch {
			case err == nil:
				wins, winner = wins+1, n
			case !errors.Is(err, archive.ErrExists):
				doubtful++ // this write may have won
			}
		}
		undecided += doubtful
		held, err := x.fetch(ctx, key)
		if wins > 1 || wins+doubtful == 0 || err != nil || wins == 1 && !bytes.Equal(held.Data, probe(byte(winner))) {
			broken++
		}
	}
	const do = "two boxes could take one epoch, two directors one version: do not run a chain on this store"
	switch {
	case broken > 0:
		x.note("fail", "race", do, "in %d of %d races of %d writers, not exactly one was told that it created the "+
			"object, or the object is not the winner's", broken, x.rounds, x.writers)
	case undecided > 0:
		x.note("warn", "race", "the store is overloaded or breaks connections: examine it again when it is quiet",
			"one winner in each of %d races, but %d of %d writings failed otherwise", x.rounds, undecided,
			x.rounds*x.writers)
	default:
		x.note("ok", "race", "", "one winner in each of %d races of %d writers", x.rounds, x.writers)
	}
}

func (x *examination) raceOnce(ctx context.Context, key string) []error {
	results := make([]error, x.writers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for n := range results {
		all.Go(func() {
			<-start
			results[n] = x.store.Create(ctx, key, probe(byte(n)))
		})
	}
	close(start)
	all.Wait()
	return results
}

// readBack checks that a read returns what was just written.
func (x *examination) readBack(ctx context.Context) {
	const do = "a cache stands between, or the store is eventually consistent: statuses and orders would be old"
	var stale int
	var failure error
	for round := range x.rounds {
		written := x.store.Overwrite(ctx, x.prefix+"status", probe(byte(round)))
		held, err := x.fetch(ctx, x.prefix+"status")
		if err = cmp.Or(written, err); err == nil && !bytes.Equal(held.Data, probe(byte(round))) {
			stale++
		}
		failure = cmp.Or(err, failure)
	}
	switch {
	case stale > 0:
		x.note("fail", "read back", do, "%d of %d reads returned an older object", stale, x.rounds)
	case failure != nil:
		x.note("fail", "read back", "the access key must write, overwrite and read under fleet/v1/", "%v", failure)
	default:
		x.note("ok", "read back", "", "%d of %d reads returned the object just written", x.rounds, x.rounds)
	}
}

// list checks that the store lists new objects. The centre needs such lists; a box does not.
func (x *examination) list(ctx context.Context) {
	listed := 0
	for _, err := range x.store.List(ctx, x.prefix+"race/") {
		if err != nil {
			x.note("fail", "list", "the centre's access key needs s3:ListBucket; a box's does not list", "%v", err)
			return
		}
		listed++
	}
	status, do := "ok", ""
	if listed != x.rounds {
		status, do = "warn", "fleet status reads lists: it may not name a new branch at once"
	}
	x.note(status, "list", do, "%d of %d new objects are listed", listed, x.rounds)
}

// clock checks the store's time of an object, by which the centre recognises a silent box.
func (x *examination) clock(ctx context.Context) {
	written := x.store.Overwrite(ctx, x.prefix+"clock", probe(0))
	held, err := x.fetch(ctx, x.prefix+"clock")
	switch err = cmp.Or(written, err); {
	case err != nil:
		x.note("fail", "clock", "the access key must overwrite and read under fleet/v1/", "%v", err)
	case held.Modified.IsZero():
		x.note("fail", "clock", "the centre cannot recognise a silent box on this store",
			"answers have no Last-Modified")
	case held.Now.IsZero():
		x.note("warn", "clock", "silence is judged by this machine's clock", "answers have no Date")
	case held.Now.Sub(held.Modified).Abs() > time.Minute:
		x.note("fail", "clock", "the centre cannot recognise a silent box on this store",
			"an object that was just written is %v old", held.Now.Sub(held.Modified))
	case held.Now.Sub(x.now()).Abs() > time.Minute:
		x.note("warn", "clock", "one of the two clocks is wrong", "the store's clock and this machine's differ by %v",
			held.Now.Sub(x.now()).Abs().Round(time.Second))
	default:
		x.note("ok", "clock", "", "the store's time of an object is right")
	}
}
