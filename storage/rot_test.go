package storage

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// TestRot inverts one bit in every kind of file of a closed store, at many places. The next start names the file, or
// goes on; when it goes on, each document is what it was or is refused as damaged. Nothing else, and never a panic.
func TestRot(t *testing.T) {
	const documents = 40
	disk := tableStore(t, documents)
	s := openStore(t, disk)
	for n := uint64(documents + 1); n <= documents+10; n++ { // these are in the log
		put(t, s, fmt.Sprint("s", n%2), n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string][2]int) // starts that refused, starts that went on
	for _, file := range disk.Files() {
		length := size(t, disk, file)
		if length == 0 {
			continue
		}
		kind := regexp.MustCompile(`[0-9]+`).ReplaceAllString(path.Base(file), "")
		places := int64(12)
		if soak {
			places = 400
		}
		for i := range min(places, length) {
			at := i * length / min(places, length)
			rotten := disk.Copy()
			if err := rotten.Flip(file, at*8+i%8); err != nil {
				t.Fatal(err)
			}
			refused, err := startRotten(rotten, documents+10)
			if err != nil {
				t.Errorf("%s, byte %d of %d: %v", file, at, length, err)
			}
			n := kinds[kind]
			if refused {
				n[0]++
			} else {
				n[1]++
			}
			kinds[kind] = n
		}
	}
	t.Logf("refused and went on: %v", kinds)
	for _, kind := range []string{".log", ".sst", "MANIFEST-", "OPTIONS-", "mark"} {
		if kinds[kind] == [2]int{} {
			t.Errorf("no file of the kind %s: %v", kind, kinds)
		}
	}
}

// startRotten opens a store, and reads all documents when it opens.
func startRotten(disk *disktest.Disk, documents uint64) (refused bool, err error) {
	s, err := Open(options(disk))
	if err != nil {
		said := strings.ReplaceAll(err.Error(), "opening store box/store:", "")
		if !regexp.MustCompile(`\.log|\d{6}|MANIFEST|OPTIONS|mark|series|journal|layout`).MatchString(said) {
			return true, fmt.Errorf("the start does not say which file: %w", err)
		}
		return true, nil
	}
	if s.Behind() != nil { // it numbers nothing, and says which medium knows more
		return true, s.Close()
	}
	for n := uint64(1); n <= documents; n++ {
		e, bad := s.Get(code(n))
		var b []byte
		if bad == nil {
			b, bad = s.Part(code(n), "form")
		}
		switch {
		case bad != nil && !unreadable(bad):
			err = errors.Join(err, fmt.Errorf("document %d: %w", n, bad))
		case bad == nil && (e.Number != (n+1)/2 || !bytes.Equal(b, form(code(n)))):
			err = errors.Join(err, fmt.Errorf("document %d is another: number %d, %.10x", n, e.Number, b))
		}
	}
	return false, errors.Join(err, s.Close())
}
