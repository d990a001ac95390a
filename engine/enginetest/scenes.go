package enginetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// Changes reads the late results after a cursor to their end, like a till that does not wait.
func (b *Box) Changes(after uint64) []documents.Late {
	b.T.Helper()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	var all []documents.Late
	for {
		list, next, err := b.Engine.Documents().Changes(now, after, TestCaller(1))
		if err != nil {
			b.T.Fatal(err)
		}
		for _, l := range list {
			if l.Cursor <= after {
				b.T.Errorf("behind cursor %d comes %+v", after, l)
			}
			after = l.Cursor
		}
		if all = append(all, list...); len(list) == 0 {
			return all
		}
		if after != next {
			b.T.Errorf("the last change is at %d, the page ends at %d", after, next)
		}
	}
}

// Hesitant: MH has accepted a sale, and the link is cut before its answer.
func Hesitant(b *Box) {
	b.Chaos(simulator.Chaos{DelayMS: 500})
	done := make(chan *record.View)
	go func() { done <- b.Issue(Sale("hesitant", 100)) }()
	for b.Sim.Received().Documents == 0 {
		time.Sleep(time.Millisecond)
	}
	b.Cable.Set(Refusing)
	r := <-done
	if r.Estado != record.EstadoContingency {
		b.T.Errorf("the sale is %s", r.Estado)
	}
	time.Sleep(time.Hour)
	b.Cable.Set(Plugged)
	b.Chaos(simulator.Chaos{})
	time.Sleep(20 * time.Minute)
	if now := b.Document(r.Code); now.Estado != record.EstadoProcessed || Text(b.T, now, "identificacion",
		"tipoModelo") != "1" {
		b.T.Errorf("MH held the normal form; the record is %s %s", now.Estado, now.JSON)
	}
	b.Audit()
}

// Late issues sales in contingency; MH refuses the first two afterwards, alone or in a lot.
func Late(b *Box, sales int) []*record.View {
	b.T.Helper()
	b.Cable.Set(Refusing)
	var list []*record.View
	for i := range sales {
		list = append(list, b.Issue(Sale("", 500+i)))
	}
	time.Sleep(time.Hour)
	b.Chaos(simulator.Chaos{Reject: min(2, sales)})
	b.Cable.Set(Plugged)
	time.Sleep(20 * time.Minute)
	return list
}

func (b *Box) Correct(code string, cents int) *record.View {
	b.T.Helper()
	r, err := b.Engine.Correct(context.Background(), CodeOf(&record.View{Code: code}), Sale("", cents))
	if err != nil {
		b.T.Fatal(err)
	}
	return r
}

// Base is a store made once, before anything is issued; every scenario starts from a copy of it.
var Base = sync.OnceValue(func() *disktest.Disk {
	fs := disktest.New(disktest.Strict)
	w := &World{Now: func() time.Time { return Start }}
	if err := storage.Create(w.storeOptions(fs)); err != nil {
		panic(err)
	}
	return fs
})

// DocumentsOf counts the documents of a store: the sum of its series of control numbers.
func DocumentsOf(r *storage.Report) (n int) {
	for series, last := range r.Last {
		if strings.Count(series, "/") == 4 { // ambiente/type/establishment/point/year
			n += int(last)
		}
	}
	return n
}

func (b *Box) Settled(n int, err error) int {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
	return n
}

// ending is a context that ends after Left calls of Err.
type ending struct {
	context.Context
	end  func()
	Left atomic.Int64
}

func EndingAfter(looks int) *ending {
	c := new(ending)
	c.Context, c.end = context.WithCancel(context.Background())
	c.Left.Store(int64(looks))
	return c
}

func (c *ending) Err() error {
	if c.Left.Add(-1) < 0 {
		c.end()
	}
	return c.Context.Err()
}

// Outage makes sales offline. It returns when MH is back, before a sale is sent.
func (b *Box) Outage(sales int) (codes []string) {
	b.T.Helper()
	b.Cable.Set(Refusing)
	for i := range sales {
		codes = append(codes, b.Issue(Sale(fmt.Sprint("offline ", i), 200+i)).Code)
	}
	time.Sleep(time.Minute)
	b.PlugIn()
	return codes
}

func Invalidation(r *record.View, kind int64, replacement string) engine.InvalidationRequest {
	c := TestCaller(1)
	c.Permissions = Everything
	return engine.InvalidationRequest{
		Code:        CodeOf(r),
		Kind:        kind,
		Reason:      "Error en la cantidad",
		Replacement: replacement,
		Caller:      c,
		Responsible: record.Person{Name: "María López", DocumentType: "13", Document: "012345678"},
		Applicant:   record.Person{Name: "Ana Morales", DocumentType: "13", Document: "123456789"},
	}
}

func (b *Box) PlugIn() {
	b.Cable.Set(Plugged)
	for b.Engine.Contingency().Current() != nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// Piece is what a disk loses of one record: a part, its row, or the row's last change.
type Piece struct {
	Entry storage.Entry
	Name  string // of the part; or EntryRow or OldRow
}

const (
	EntryRow = "(the record)"
	OldRow   = "(its last change)"
)

func (p Piece) String() string {
	name, _, _ := strings.Cut(p.Name, ":") // of an invalidation's event, without its code
	queue := "no queue"
	if p.Entry.Due != nil {
		queue = p.Entry.Due.Queue
	}
	return fmt.Sprintf("state %d in %s, %s", p.Entry.State, queue, name)
}

// The rows of a record in the store's tables: see storage/rowkeys.go.
func entryKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{4}, id) }
func partKey(id uint64, name string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{5}, id), name...)
}

func openTables(t testing.TB, disk *disktest.Disk) *pebble.DB {
	t.Helper()
	o := &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: noLogger{}}
	o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	db, err := pebble.Open("/data", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

type noLogger struct{}

func (noLogger) Infof(string, ...any)           {}
func (noLogger) Errorf(string, ...any)          {}
func (noLogger) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// Rows are the rows of records by id.
type Rows map[uint64][]byte

// Rows reads the rows of a branch's records as they are now.
func (b *Box) Rows() Rows {
	b.T.Helper()
	db, list := openTables(b.T, b.Fs.Copy()), make(Rows)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{4}, UpperBound: []byte{5}})
	if err != nil {
		b.T.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		list[binary.BigEndian.Uint64(it.Key()[1:])] = slices.Clone(it.Value())
	}
	if err := errors.Join(it.Close(), db.Close()); err != nil {
		b.T.Fatal(err)
	}
	return list
}

// Lose removes a piece from the store of a branch that has ended.
func (b *Box) Lose(p Piece, early Rows) {
	b.T.Helper()
	db := openTables(b.T, b.Fs)
	var err error
	switch p.Name {
	case EntryRow:
		err = db.Delete(entryKey(p.Entry.ID), pebble.Sync)
	case OldRow:
		err = db.Set(entryKey(p.Entry.ID), early[p.Entry.ID], pebble.Sync)
	default:
		err = db.Delete(partKey(p.Entry.ID, p.Name), pebble.Sync)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		b.T.Fatal(err)
	}
}

// Sold returns the documents that the store has, by code.
func (b *Box) Sold() (codes []storage.Code) {
	b.T.Helper()
	err := b.Store.Records(0, func(entry storage.Entry) error {
		if record.IsDocument(entry.State) {
			codes = append(codes, entry.Code)
		}
		return nil
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return codes
}

var monthsFor = flag.Duration("months", 0, "play branch-months, or chain-months, for so long; see make proof")

// monthsPlan says which months are played.
type monthsPlan struct {
	first, seeds uint64
	length       time.Duration
	began        time.Time
}

// MonthsToPlay returns the months to play: in the suite, some days of a few seeds. DTE_SEED replays one month, or a
// range ("3-250"). DTE_SOAK plays many months; -months plays, from DTE_SEED on, as many as fit into a time.
func MonthsToPlay(t *testing.T, seeds uint64, days time.Duration, soak uint64) monthsPlan {
	const day, whole = 24 * time.Hour, 30 * 24 * time.Hour
	p := monthsPlan{1, seeds, days * day, time.Now()}
	if os.Getenv("DTE_SOAK") != "" {
		p.seeds, p.length = soak, whole
	}
	if *monthsFor > 0 {
		p.seeds, p.length = math.MaxInt32, whole
	}
	if s := os.Getenv("DTE_SEED"); s != "" {
		from, to, several := strings.Cut(s, "-")
		if !several {
			to = from
		}
		n, err := strconv.ParseUint(from, 10, 64)
		last, err2 := strconv.ParseUint(to, 10, 64)
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		p.first, p.seeds, p.length = n, last-n+1, whole
		if !several && *monthsFor > 0 { // as many as fit, from this one on
			p.seeds = math.MaxInt32
		}
	}
	return p
}

// Each plays month after month, until one fails.
func (p monthsPlan) Each(t *testing.T, month func(t *testing.T, seed uint64, length time.Duration)) {
	for seed := p.first; seed < p.first+p.seeds && !t.Failed() && (*monthsFor == 0 ||
		time.Since(p.began) < *monthsFor); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { month(t, seed, p.length) })
	}
}

func (p monthsPlan) String() string {
	return fmt.Sprintf("%v, seeds from %d", time.Since(p.began).Round(time.Second), p.first)
}

// ShowsDelivery compares the metrics of delivery with what waits for the receivers and the archive.
func (b *Box) ShowsDelivery(u outbox.Undelivered) {
	b.T.Helper()
	flag := func(trouble string) float64 { return map[bool]float64{true: 1}[trouble != ""] }
	unix := func(at time.Time) float64 { return max(0, float64(at.Unix())) }
	got := metrictest.Values(b.T, b.Engine)
	for name, want := range map[string]float64{"backlog/mail": float64(u.Mail), "backlog/archive": float64(u.Archive),
		"given_up":                      float64(u.GivenUp),
		"oldest_timestamp_seconds/mail": unix(u.MailOldest), "oldest_timestamp_seconds/archive": unix(u.ArchiveOldest),
		"blocked/mail": flag(u.MailTrouble), "blocked/archive": flag(u.ArchiveTrouble)} {
		if v, shown := got["dte_delivery_"+name]; v != want || !shown {
			b.T.Errorf("dte_delivery_%s is %v, want %v", name, v, want)
		}
	}
}

// Until waits until the backlog meets a condition (is), and returns the time to the second. what describes it.
func (b *Box) Until(what string, is func(*engine.Backlog) bool) time.Time {
	b.T.Helper()
	for range 3600 {
		if o, err := OwedBy(b.Engine); err != nil {
			b.T.Fatal(err)
		} else if is(o) {
			return time.Now()
		}
		time.Sleep(time.Second)
	}
	b.T.Fatalf("within an hour not: %s", what)
	return time.Time{}
}

// Drained waits until the branch has nothing to send, at most two hours.
func (b *Box) Drained() {
	b.T.Helper()
	for range 120 {
		time.Sleep(time.Minute)
		synctest.Wait() // a record on its way from one time to another is not counted
		waiting := 0
		for queue, n := range b.Engine.CountBacklog().Waiting {
			if queue != record.QueueCorrect {
				waiting += n
			}
		}
		if waiting == 0 && b.Engine.Contingency().Current() == nil {
			return
		}
	}
	b.T.Errorf("after two hours the branch owes %+v", b.Engine.CountBacklog().Waiting)
}

// Heap returns how many bytes the live objects take.
func Heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first run has released
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Modules returns how many compiled modules the host holds.
func (w *World) Modules(t *testing.T) int {
	return int(metrictest.Value(t, plugintest.Host(t, "compiler"), "dte_rule_modules"))
}

// Restart cuts the power and starts again, with the shelf that the store has. It returns the log of the start.
func (w *World) Restart() (*rulestore.Store, string) {
	w.T.Helper()
	left := w.Fs.Crash(0, nil)
	if err := w.Store.Close(); err != nil {
		w.T.Fatal(err)
	}
	if err := w.Reopen(left); err != nil {
		w.T.Fatal(err)
	}
	var log bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	s := w.Shelf(nil)
	return s, log.String()
}

// Record appends a record of a rule, as anybody who can write to a backup could: with the storage package, and no key.
func (w *World) Record(digest string, head any, parts ...storage.Part) {
	w.T.Helper()
	code, err := rulestore.CodeOf(digest)
	if err != nil {
		w.T.Fatal(err)
	}
	b, ok := head.([]byte)
	if !ok {
		if b, err = json.Marshal(head); err != nil {
			w.T.Fatal(err)
		}
	}
	_, err = w.Store.Append(context.Background(), storage.Keys{Series: "00/reglas"}, storage.Draft{Code: code,
		State: record.RuleAdmitted, Head: b, Parts: parts, Due: &storage.Due{Queue: record.QueueRules, At: Start}})
	if err != nil {
		w.T.Fatal(err)
	}
}

// Step makes five sales offline and lets the branch send them under a hostility; the power fails after its k-th request
// to MH (0: never). It returns whether there was a k-th request.
func (b *Box) Step(hostility simulator.Chaos, poisoned bool, k int64) (crashed bool) {
	b.Chaos(simulator.Chaos{})
	b.Issue(Sale("before", 100))
	b.Cable.Set(Refusing)
	var codes []string
	for i := range 5 {
		codes = append(codes, b.Issue(Sale(fmt.Sprint(i), 200+i)).Code)
	}
	time.Sleep(time.Hour)
	b.Cable.Set(Plugged)
	for b.Engine.Contingency().Current() != nil {
		time.Sleep(time.Second)
	}
	if hostility.LotMS = 8_000; poisoned {
		hostility.Poison = codes[0]
	}
	if err := b.Sim.Chaos(hostility); err != nil {
		b.T.Fatal(err)
	}
	crashed = b.sendUntil(k)
	if poisoned {
		b.drains(codes, codes[0])
		b.Chaos(simulator.Chaos{})
	}
	b.drains(codes, "")
	left := b.Sim.Hostilities()
	if lots := b.Sim.Received().Lots; hostility.RejectLots > 1 && lots != 0 {
		b.T.Errorf("%d lots came about", lots)
	}
	if left.RejectLots < hostility.RejectLots {
		left.RejectLots = 0
	}
	if left.LotMS, left.LateMS, left.Only = 0, 0, ""; left != (simulator.Chaos{}) {
		b.T.Errorf("it did not strike: %+v", left)
	}
	b.Audit()
	return crashed
}

// sendUntil lets the branch work for an hour. After its k-th request the branch is dead: nothing that it does from then
// on is stored or sent.
func (b *Box) sendUntil(k int64) (crashed bool) {
	var requests atomic.Int64
	died := make(chan *disktest.Disk, 1)
	disk, wire, lost := b.Fs, b.Wire, Fork(b.Rand)
	b.At(func(point string) {
		if !strings.HasPrefix(point, "after ") || requests.Add(1) != k {
			return
		}
		died <- disk.Crash(lost.IntN(101), lost)
		wire.Sever()
	})
	select {
	case after := <-died:
		b.Close()
		b.Fs = after
		b.Start()
		return true
	case <-time.After(time.Hour):
		b.At(nil)
		return false
	}
}

// drains lets the branch send the documents, and checks that all become PROCESSED except one on which MH chokes (but):
// after two hours this document still waits and is shown, and it stops neither the others nor the tills.
func (b *Box) drains(codes []string, but string) {
	b.T.Helper()
	if but != "" {
		time.Sleep(2 * time.Hour)
		if r := b.Issue(Sale("meanwhile", 300)); r.Estado != record.EstadoProcessed {
			b.T.Errorf("beside the document that chokes MH a sale is %s", r.Estado)
		}
	} else {
		b.Drained()
	}
	for _, code := range codes {
		if r := b.Document(code); code != but && (r.Estado != record.EstadoProcessed || r.Sello == "") {
			b.T.Errorf("%s is %s", code, r.Estado)
		}
	}
	if but == "" {
		return
	}
	synctest.Wait()
	owed, err := OwedBy(b.Engine)
	if err != nil {
		b.T.Fatal(err)
	}
	r := b.Document(but)
	if r.Estado != record.EstadoContingency || owed.Waiting[record.QueueForward] != 1 ||
		!owed.Oldest.Equal(r.CreatedAt) || owed.DocumentDeadline.IsZero() {
		b.T.Errorf("the document that chokes MH is %s, owed is %+v", r.Estado, owed)
	}
}

// PutBack puts the disk of an earlier moment back, store and mark together, as a snapshot of the box does: nothing on
// the box knows what was issued since.
func (b *Box) PutBack(fs *disktest.Disk) {
	b.T.Helper()
	b.Close()
	b.Fs = fs
	b.Start()
}

func (b *Box) Snapshot() *disktest.Disk {
	return b.Fs.Crash(100, Fork(b.Rand))
}

func (b *Box) Series(document string) string {
	p := TestCaller(1).Point
	return "00/" + document + "/" + p.Establishment + "/" + p.PointOfSale + "/2026"
}
