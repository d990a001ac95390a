package storage

import (
	"crypto/sha256"
	"errors"
	"testing"
)

// TestProof: a row whose bytes the journal names is proven, other bytes of the same row are disproven, and a row that
// the journal does not name is neither.
func TestProof(t *testing.T) {
	p := &proof{make(map[uint64]struct{})}
	row, part := []byte("row"), []byte("part")
	p.link(nil, &link{Op: opAppend, ID: 7, Revision: 2, Entry: sha256.Sum256(row), Parts: []partDigest{{"form",
		sha256.Sum256(part)}}})
	lostRow := []byte("lost")
	p.link(journalKey(3, 9), &link{Op: opSkip, Entry: sha256.Sum256(lostRow)})
	entry := func(id uint64, revision uint32, value []byte) verdict {
		e := &entryRow{}
		e.ID, e.Revision = id, revision
		return p.entry(e, value)
	}
	for name, tt := range map[string]struct{ got, want verdict }{
		"the row":                    {entry(7, 2, row), proven},
		"other bytes":                {entry(7, 2, []byte("other")), disproven},
		"another revision":           {entry(7, 3, row), unproven},
		"another record":             {entry(8, 2, row), unproven},
		"the part":                   {p.part(7, "form", part), proven},
		"other bytes of the part":    {p.part(7, "form", row), disproven},
		"a part that nobody names":   {p.part(7, "facts", part), unproven},
		"the part of another record": {p.part(8, "form", part), unproven},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %d, want %d", name, tt.got, tt.want)
		}
	}
	if key := lostKey(3, 9); !p.lost(key, lostRow) || p.lost(key, row) || p.lost(lostKey(3, 8), lostRow) ||
		p.lost(lostKey(4, 9), lostRow) {
		t.Error("a lost row is not told from others")
	}
}

// TestFrame_Short: a frame of the second copy that ends within a value is corrupt, whatever its checksum said.
func TestFrame_Short(t *testing.T) {
	for _, kind := range []byte{frameChange, frameFilled} {
		f := frame{Kind: kind, Payload: []byte{1}}
		if err := f.follow(&copyState{Series: make(map[uint32]place)}, new(position), position{}); !errors.Is(err,
			ErrCorrupt) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}
