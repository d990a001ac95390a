package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestRestore_NoNumberTwice plays boxes that issue, are backed up, die and come back, again and again. However far the
// mark lagged and whichever backup it was, no number that was given out is given out again. While the mark is there, no
// series skips more than one number: the one that the mark may not know yet.
func TestRestore_NoNumberTwice(t *testing.T) {
	seeds := 12
	if soak {
		seeds = 500
	}
	for seed := range seeds {
		if err := playDisasters(t, newRand(uint64(seed))); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func playDisasters(t *testing.T, rng *rand.Rand) error {
	s, fs := newStore(t)
	series := []string{"a", "b", "c", "d", "e", "f"}
	var mu sync.Mutex
	var twice error
	spent := make(map[string]map[uint64]bool)
	for _, name := range series {
		spent[name] = make(map[uint64]bool)
	}
	furthest := make(map[string]uint64) // the last number of each series that was given or skipped
	n, sinceBackup := uint64(0), map[string]uint64{}
	issue := func(count int) {
		var tills sync.WaitGroup
		for range count {
			n++
			id, name := n, series[rng.IntN(min(len(series), 2+int(n/20)))] // some begin late
			tills.Go(func() {
				e, err := s.build(ctx, Keys{Series: name}, func(slot Slot) (Draft, error) {
					return draft(code(id),
						slot), nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					twice = err
				} else if spent[name][e.Number] {
					twice = fmt.Errorf("number %d of series %s was given twice", e.Number, name)
				}
				spent[name][e.Number] = true
				furthest[name] = max(furthest[name], e.Number)
			})
			if rng.IntN(2) == 0 {
				tills.Wait()
			}
		}
		tills.Wait()
	}
	var backups []string
	for round := range 5 {
		issue(rng.IntN(12))
		dir := fmt.Sprint("medium/", round)
		backup(t, s, dir)
		backups = append(backups, dir)
		sinceBackup[dir] = n
		issue(1 + rng.IntN(12))
		from := backups[rng.IntN(len(backups))]
		disk := fs.Crash(rng.IntN(2)*50, rng)
		if err := s.Close(); err != nil {
			return err
		}
		fs = disk
		if err := fs.RemoveAll("box/store"); err != nil {
			return err
		}
		if rng.IntN(4) == 0 {
			if err := fs.Remove(markPath); err != nil {
				return err
			}
		}
		s = restored(t, fs, from)
		possible := func(time.Time) []string { return series }
		o, err := s.Owed(possible)
		if err != nil {
			return err
		}
		// Beyond all numbers that were spent, earlier advances included.
		if o, err = s.Settle(ctx, possible, o.losses(1000<<(4*round)), "restored"); err != nil {
			return err
		}
		for _, k := range o.Series {
			if !o.MarkLost && k.To > furthest[k.Series]+1 {
				return fmt.Errorf("round %d: series %s moves to %d, and it got to %d", round, k.Series, k.To,
					furthest[k.Series])
			}
			furthest[k.Series] = max(furthest[k.Series], k.To)
		}
	}
	issue(10)
	err := checkSound(s)
	return errors.Join(twice, err, s.Close())
}
