package fleetproto

import (
	"bytes"
	"fmt"
	"regexp"
	"time"
)

// Piece describes some bytes of a file of a box's second copy. The object at SegmentKey holds the signed Piece, a line
// break and the bytes. Pieces are numbered from 1 without a gap, and each piece names the previous piece.
//
// A part joins the bytes of consecutive pieces of one file in the object at PartKey. A rebuild reads the parts, and
// only the pieces that no part holds.
type Piece struct {
	Head     Head   `json:"head"`
	Branch   string `json:"branch"`
	Epoch    int64  `json:"epoch"`
	First    int64  `json:"first,omitempty"`    // of a part: the number of its first piece; 0: this is a single piece
	Number   int64  `json:"number"`             // of a part: the number of its last piece
	Previous string `json:"previous,omitempty"` // Digest of the previous object; empty in the first and in a part
	Last     string `json:"last,omitempty"`     // of a part: Digest of its last piece's object; empty: that was lost
	File     string `json:"file"`               // "0000000001.copy"
	Offset   int64  `json:"offset"`             // where the bytes begin in the file; older bytes from there on are void
	Digest   string `json:"digest"`             // of the bytes
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

var pieceFile = regexp.MustCompile(`^[0-9]{10}\.copy$`)

func (p *Piece) check() error {
	var f faults
	f.in("branch", CheckName(p.Branch))
	f.unless(p.Epoch >= 1 && p.Number >= 1 && p.Offset >= 0 && pieceFile.MatchString(p.File) &&
		digestForm.MatchString(p.Digest) && p.First >= 0 && p.First <= p.Number && emptyOrDigest(p.Last) &&
		(p.First > 0 || (p.Number == 1) == (p.Previous == "")), "it is no piece of a second copy")
	return f.joined()
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

// OpenWholeCopy reads and verifies the mark of a box's epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenWholeCopy(data []byte, branch string, epoch int64, box Key) (*WholeCopy, error) {
	w := new(WholeCopy)
	_, err := c.open(data, []Key{box}, address{kind: "whole", owner: branch, epoch: epoch}, w)
	return opened(w, err)
}

func (w *WholeCopy) at() (*Head, address) {
	return &w.Head, address{kind: "whole", owner: w.Branch, epoch: w.Epoch}
}

func (w *WholeCopy) check() error {
	var f faults
	f.in("branch", CheckName(w.Branch))
	f.unless(w.Epoch >= 1 && w.Piece >= 1 && !w.At.IsZero(), "it does not say that a copy is whole")
	return f.joined()
}
