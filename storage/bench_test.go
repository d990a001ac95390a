package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// partSize is what one document takes: its facts and its signed form.
const partSize = 9 << 10

func benchStore(b *testing.B, fs vfs.FS, dir string) *Store {
	o := options(fs)
	o.Dir, o.MarkPath = filepath.Join(dir, "store"), filepath.Join(dir, "mark")
	o.Now = time.Now
	if err := Create(o); err != nil {
		b.Fatal(err)
	}
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchDraft(n uint64, slot Slot, data []byte) Draft {
	return Draft{Code: code(n), State: fresh, Head: data[:400], Parts: []Part{{"facts", data[:1500]},
		{"form", data[1500:]}},
		Due: &Due{"settle", time.Unix(int64(slot.ID), 0)}}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// randomData does not compress, like a signature and unlike most of a document: the worse case.
func randomData() []byte {
	data := make([]byte, partSize)
	rng := newRand(1)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// BenchmarkAppend compares, in turns, an Append of 9 KiB with a bare write and fdatasync of as many bytes to a file
// beside it. It reports the medians of both, their ratio, and the CPU time of an Append (all threads, system included).
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	s := benchStore(b, vfs.Default, dir)
	bare, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	if err := syscall.Fallocate(int(bare.Fd()), 0, 0, 64<<20); err != nil {
		b.Log(err)
	}
	data := randomData()
	var ours, theirs []time.Duration
	var spent, bareSpent time.Duration
	var n uint64
	for b.Loop() {
		n++
		before, start := cpu(b), time.Now()
		e, err := s.build(ctx, Keys{Series: "a", Idempotency: idemOf(n)}, func(slot Slot) (Draft,
			error) {
			return benchDraft(n, slot, data), nil
		})
		ours = append(ours, time.Since(start))
		s.mark.wait("a", e.Number) // the mark's work counts, though no caller waits for it
		spent += cpu(b) - before
		before = cpu(b)
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		if _, err := bare.Write(data); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(bare.Fd())); err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Since(start))
		bareSpent += cpu(b) - before
	}
	report(b, "append", ours)
	report(b, "bare", theirs)
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "append/bare")
	b.ReportMetric(float64(spent.Microseconds())/float64(n), "cpu-µs/append")
	b.ReportMetric(float64(bareSpent.Microseconds())/float64(n), "cpu-µs/bare")
	sound(b, s)
	if err := bare.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkIssue is what the store does for one accepted document: Append and Advance.
func BenchmarkIssue(b *testing.B) {
	for _, clients := range []int{1, 16} {
		for _, series := range []int{1, 8} {
			b.Run(fmt.Sprintf("clients=%d/series=%d", clients, series), func(b *testing.B) {
				s := benchStore(b, vfs.Default, b.TempDir())
				data := randomData()
				work := make(chan uint64)
				done := make(chan error, clients)
				for range clients {
					go func() {
						var failed error
						for n := range work {
							_, err := s.build(ctx, Keys{Series: fmt.Sprint(n % uint64(series)), Idempotency: idemOf(n)},
								func(slot Slot) (Draft, error) { return benchDraft(n, slot, data), nil })
							if err == nil {
								_, err = s.Advance(ctx, code(n), fresh,
									Change{To: 2, Parts: []Part{{"answer", data[:500]}}})
							}
							if err != nil {
								failed = err
							}
						}
						done <- failed
					}()
				}
				var n uint64
				before, start := cpu(b), time.Now()
				for b.Loop() {
					n++
					work <- n
				}
				close(work)
				for range clients {
					if err := <-done; err != nil {
						b.Error(err)
					}
				}
				b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(n), "cpu-µs/issue")
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "issues/s")
				sound(b, s)
			})
		}
	}
}

// BenchmarkIssueMemory leaves the disk out: the CPU time of the store itself.
func BenchmarkIssueMemory(b *testing.B) {
	s := benchStore(b, vfs.NewMem(), "m")
	data := randomData()
	b.ReportAllocs()
	var n uint64
	before := cpu(b)
	for b.Loop() {
		n++
		_, err := s.build(ctx, Keys{Series: "a", Idempotency: idemOf(n)}, func(slot Slot) (Draft,
			error) {
			return benchDraft(n, slot, data), nil
		})
		if err == nil {
			_, err = s.Advance(ctx, code(n), fresh, Change{To: 2, Parts: []Part{{"answer", data[:500]}}})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(n), "cpu-µs/issue")
	sound(b, s)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func report(b *testing.B, name string, d []time.Duration) {
	b.ReportMetric(float64(median(d).Microseconds()), name+"-µs-p50")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), name+"-µs-p99")
}
