package wire

import (
	"errors"
	"fmt"
	"time"
)

// Base joins many pieces in a few large objects. A rebuild reads the bases, and only the pieces after the last base. The bases
// of an epoch are numbered from 1 without a gap. Each begins where the base before it ended, and names that base.
type Base struct {
	Kind     string    `json:"kind"` // "base"
	Branch   string    `json:"branch"`
	Epoch    int64     `json:"epoch"`
	Number   int64     `json:"number"`
	Previous string    `json:"previous,omitempty"` // Digest of the base before; empty for the first
	At       time.Time `json:"at"`
	Parts    []Part    `json:"parts"` // 1 to MaxParts
}

// Part is the bytes of consecutive pieces of one file. The object under PartKey holds them unchanged.
type Part struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"` // at most MaxPart
	Digest string `json:"digest"`
	Piece  int64  `json:"piece"` // number of the last piece in it
	Last   string `json:"last"`  // Digest of that piece's object
}

// Limits of a base.
const (
	MaxPart  = 16 << 20 // bytes
	MaxParts = 2000
)

// SealBase signs a base with the box's key.
func SealBase(b Base, box Signer) ([]byte, error) {
	b.Kind = kindBase
	return seal("base", &b, box)
}

// OpenBase reads a base of a box's copy. Errors: ErrFormat, ErrSignature, ErrOther.
func OpenBase(data []byte, branch string, epoch, number int64, box Key) (*Base, error) {
	b := new(Base)
	if _, err := openSealed("base", data, []Key{box}, b); err != nil {
		return nil, err
	}
	if b.Branch != branch || b.Epoch != epoch || b.Number != number {
		return nil, fmt.Errorf("%w: base %d of %s, epoch %d", ErrOther, b.Number, b.Branch, b.Epoch)
	}
	return b, nil
}

// End returns the last part.
func (b *Base) End() Part { return b.Parts[len(b.Parts)-1] }

const kindBase = "base"

func (b *Base) check() error {
	faults := []error{fieldError("branch", CheckName(b.Branch))}
	if b.Kind != kindBase || b.Epoch < 1 || b.Number < 1 || b.At.IsZero() || (b.Number == 1) != (b.Previous == "") || len(b.Parts) == 0 || len(b.Parts) > MaxParts {
		faults = append(faults, errors.New("it is no base of a second copy"))
	}
	piece := int64(0)
	for i, p := range b.Parts {
		if !pieceFile.MatchString(p.File) || p.Offset < 0 || p.Size < 0 || p.Size > MaxPart || !digestForm.MatchString(p.Digest) || !digestForm.MatchString(p.Last) || p.Piece <= piece {
			faults = append(faults, fmt.Errorf("parts[%d] is none", i))
		}
		piece = p.Piece
	}
	return errors.Join(faults...)
}
