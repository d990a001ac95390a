package fleetproto

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Piece is some bytes of a file of a box's second copy, as SegmentKey holds them: the signed Piece, a line break, the
// bytes. Pieces are numbered without a gap from 1, and each names the one before.
type Piece struct {
	Head     Head   `json:"head"`
	Branch   string `json:"branch"`
	Epoch    int64  `json:"epoch"`
	Number   int64  `json:"number"`
	Previous string `json:"previous,omitempty"` // Digest of the object before; empty for the first
	File     string `json:"file"`               // "0000000001.copy"
	Offset   int64  `json:"offset"`             // where the bytes begin in it; what was there, and behind, is void
	Digest   string `json:"digest"`             // of the bytes
}

// SealPiece signs bytes with the box's key.
func (c Chain) SealPiece(p Piece, body []byte, box Signer) ([]byte, error) {
	p.Digest = Digest(body)
	head, err := c.seal("piece", &p, box)
	return append(append(head, '\n'), body...), err
}

// OpenPiece reads a piece of a box's copy, and its bytes. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenPiece(data []byte, branch string, epoch, number int64, box Key) (*Piece, []byte, error) {
	head, body, _ := bytes.Cut(data, []byte("\n"))
	p := new(Piece)
	if _, err := c.open("piece", head, []Key{box}, p); err != nil {
		return nil, nil, err
	}
	if p.Branch != branch || p.Epoch != epoch || p.Number != number || p.Digest != Digest(body) {
		return nil, nil, fmt.Errorf("%w: piece %d of %s, epoch %d, or its bytes were altered", ErrOther, p.Number,
			p.Branch, p.Epoch)
	}
	return p, body, nil
}

var pieceFile = regexp.MustCompile(`^[0-9]{10}(-[0-9]{10})?\.copy$`)

func (p *Piece) head() *Head { return &p.Head }

func (p *Piece) check() error {
	faults := []error{fieldError("branch", CheckName(p.Branch))}
	if p.Epoch < 1 || p.Number < 1 || p.Offset < 0 || !pieceFile.MatchString(p.File) ||
		!digestForm.MatchString(p.Digest) || (p.Number == 1) != (p.Previous == "") {
		faults = append(faults, errors.New("it is no piece of a second copy"))
	}
	return errors.Join(faults...)
}

// Base joins many pieces in a few large objects. A rebuild reads the bases, and only the pieces that no base holds. The
// bases of an epoch are numbered from 1. Each stands for itself: its parts name the pieces that they hold.
type Base struct {
	Head   Head      `json:"head"`
	Branch string    `json:"branch"`
	Epoch  int64     `json:"epoch"`
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
	Parts  []Part    `json:"parts"` // 1 to MaxParts
}

// Part is the bytes of consecutive pieces of one file. The object under PartKey holds them unchanged.
type Part struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"` // at most MaxPart
	Digest string `json:"digest"`
	First  int64  `json:"first"`          // number of the first piece in it
	Piece  int64  `json:"piece"`          // number of the last piece in it
	Last   string `json:"last,omitempty"` // Digest of that piece's object; empty: the store had lost it
	// Tag is the store's own name for the part's bytes (ETag) when the box had read them back; empty: the store had
	// none.
	Tag string `json:"tag,omitempty"`
}

// Limits of a base.
const (
	MaxPart  = 16 << 20 // bytes
	MaxParts = 2000
	maxTag   = 128
)

// SealBase signs a base with the box's key.
func (c Chain) SealBase(b Base, box Signer) ([]byte, error) {
	return c.seal("base", &b, box)
}

// OpenBase reads a base of a box's copy. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenBase(data []byte, branch string, epoch, number int64, box Key) (*Base, error) {
	b := new(Base)
	if _, err := c.open("base", data, []Key{box}, b); err != nil {
		return nil, err
	}
	if b.Branch != branch || b.Epoch != epoch || b.Number != number {
		return nil, fmt.Errorf("%w: base %d of %s, epoch %d", ErrOther, b.Number, b.Branch, b.Epoch)
	}
	return b, nil
}

func (b *Base) head() *Head { return &b.Head }

func (b *Base) check() error {
	faults := []error{fieldError("branch", CheckName(b.Branch))}
	if b.Epoch < 1 || b.Number < 1 || b.At.IsZero() || len(b.Parts) == 0 || len(b.Parts) > MaxParts {
		faults = append(faults, errors.New("it is no base of a second copy"))
	}
	piece := int64(0)
	for i, p := range b.Parts {
		if !pieceFile.MatchString(p.File) || p.Offset < 0 || p.Size < 0 || p.Size > MaxPart ||
			!digestForm.MatchString(p.Digest) || p.Last != "" && !digestForm.MatchString(p.Last) || p.First <= piece ||
			p.Piece < p.First || len(p.Tag) > maxTag {
			faults = append(faults, fmt.Errorf("parts[%d] is none", i))
		}
		piece = p.Piece
	}
	return errors.Join(faults...)
}

// WholeCopy is the mark that the pieces of an epoch hold the box's whole store, at least up to a piece. A box that
// takes a branch over ships everything again, the oldest first. Before the box has written this mark, a rebuild should
// use the copy of the previous box.
type WholeCopy struct {
	Head   Head      `json:"head"`
	Branch string    `json:"branch"`
	Epoch  int64     `json:"epoch"`
	Piece  int64     `json:"piece"` // 1 or more
	At     time.Time `json:"at"`
}

// SealWholeCopy signs a mark with the box's key.
func (c Chain) SealWholeCopy(w WholeCopy, box Signer) ([]byte, error) {
	return c.seal("whole", &w, box)
}

// OpenWholeCopy reads and verifies the mark of a box's epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenWholeCopy(data []byte, branch string, epoch int64, box Key) (*WholeCopy, error) {
	w := new(WholeCopy)
	if _, err := c.open("whole", data, []Key{box}, w); err != nil {
		return nil, err
	}
	if w.Branch != branch || w.Epoch != epoch {
		return nil, fmt.Errorf("%w: whole copy of %s, epoch %d", ErrOther, w.Branch, w.Epoch)
	}
	return w, nil
}

func (w *WholeCopy) head() *Head { return &w.Head }

func (w *WholeCopy) check() error {
	faults := []error{fieldError("branch", CheckName(w.Branch))}
	if w.Epoch < 1 || w.Piece < 1 || w.At.IsZero() {
		faults = append(faults, errors.New("it does not say that a copy is whole"))
	}
	return errors.Join(faults...)
}
