package fleetproto

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Piece describes consecutive bytes of a file of a box's second copy. The object at SegmentKey consists of the signed
// Piece, a line break and the bytes. Pieces are numbered from 1 without a gap, and each piece has the digest of the
// previous piece.
//
// A part joins the bytes of consecutive pieces of one file in the object at PartKey. A rebuild reads the parts, and the
// pieces outside of them.
type Piece struct {
	Head     Head   `json:"head"`
	Branch   string `json:"branch" is:"name"`
	Epoch    int64  `json:"epoch" is:"set"`
	First    int64  `json:"first,omitempty"`                 // of a part: number of its first piece; 0 for a piece
	Number   int64  `json:"number" is:"set"`                 // number of the piece; of a part: of its last piece
	Previous string `json:"previous,omitempty" is:"digest?"` // Digest of the previous piece's object; "" for a part
	Last     string `json:"last,omitempty" is:"digest?"`     // of a part: Digest of its last piece; "" if that is lost
	File     string `json:"file" is:"file"`                  // "0000000001.copy"
	Offset   int64  `json:"offset"`                          // of the bytes in the file
	Digest   string `json:"digest" is:"digest"`              // of the bytes
}

// MaxPart is how many bytes a part holds at most.
const MaxPart = 16 << 20

// SealPiece signs a piece and its bytes with the box's key, and returns the object to store.
func (c Chain) SealPiece(p Piece, body []byte, box Signer) ([]byte, error) {
	p.Digest = Digest(body)
	head, err := c.Seal(&p, box)
	return append(append(head, '\n'), body...), err
}

// OpenPiece reads a piece of a box's copy, or a part if first is not 0, and returns it with its bytes. Errors:
// ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenPiece(data []byte, branch string, epoch, first, number int64, box Key) (*Piece, []byte, error) {
	head, body, _ := bytes.Cut(data, []byte("\n"))
	p := new(Piece)
	if _, err := c.open(head, []Key{box}, address{"piece", branch, epoch, number}, p); err != nil {
		return nil, nil, err
	}
	if p.First != first || p.Digest != Digest(body) {
		_, at := p.at()
		return nil, nil, fmt.Errorf("%w: %s, from %d, or its bytes were altered", ErrOther, at, p.First)
	}
	return p, body, nil
}

func (p *Piece) at() (*Head, address) { return &p.Head, address{"piece", p.Branch, p.Epoch, p.Number} }

func (p *Piece) check() error {
	if p.First > p.Number || p.First == 0 && (p.Number == 1) != (p.Previous == "") {
		return errors.New("it is not a piece of a second copy")
	}
	return nil
}

// WholeCopy states that the pieces of an epoch, up to Piece, contain the box's whole store. A box that takes over a
// branch ships everything again, the oldest data first. As long as its WholeCopy is missing, a rebuild should use the
// previous box's copy.
type WholeCopy struct {
	Head   Head      `json:"head"`
	Branch string    `json:"branch" is:"name"`
	Epoch  int64     `json:"epoch" is:"set"`
	Piece  int64     `json:"piece" is:"set"` // number of the last piece, from 1
	At     time.Time `json:"at" is:"set"`
}

// OpenWholeCopy reads and verifies the WholeCopy of an epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenWholeCopy(data []byte, branch string, epoch int64, box Key) (*WholeCopy, error) {
	return open(c, data, []Key{box}, address{kind: "whole", owner: branch, epoch: epoch}, new(WholeCopy))
}

func (w *WholeCopy) at() (*Head, address) {
	return &w.Head, address{kind: "whole", owner: w.Branch, epoch: w.Epoch}
}
