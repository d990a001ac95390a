package wire

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
)

// Piece is some bytes of a file of a box's second copy, as SegmentKey holds them: the signed Piece, a line break, the bytes. Pieces
// are numbered without a gap from 1, and each names the one before.
type Piece struct {
	Kind     string `json:"kind"` // "piece"
	Branch   string `json:"branch"`
	Epoch    int64  `json:"epoch"`
	Number   int64  `json:"number"`
	Previous string `json:"previous,omitempty"` // Digest of the object before; empty for the first
	File     string `json:"file"`               // "0000000001.copy"
	Offset   int64  `json:"offset"`             // where the bytes begin in it; what was there, and behind, is void
	Digest   string `json:"digest"`             // of the bytes
}

// SealPiece signs bytes with the box's key.
func SealPiece(p Piece, body []byte, box Signer) ([]byte, error) {
	p.Kind, p.Digest = kindPiece, Digest(body)
	head, err := seal("piece", &p, box)
	return append(append(head, '\n'), body...), err
}

// OpenPiece reads a piece of a box's copy, and its bytes. Errors: ErrFormat, ErrSignature, ErrOther.
func OpenPiece(data []byte, branch string, epoch, number int64, box Key) (*Piece, []byte, error) {
	head, body, _ := bytes.Cut(data, []byte("\n"))
	p := new(Piece)
	if _, err := openSealed("piece", head, []Key{box}, p); err != nil {
		return nil, nil, err
	}
	if p.Branch != branch || p.Epoch != epoch || p.Number != number || p.Digest != Digest(body) {
		return nil, nil, fmt.Errorf("%w: piece %d of %s, epoch %d, or its bytes were altered", ErrOther, p.Number, p.Branch, p.Epoch)
	}
	return p, body, nil
}

const kindPiece = "piece"

var pieceFile = regexp.MustCompile(`^[0-9]{10}\.copy$`)

func (p *Piece) check() error {
	faults := []error{fieldError("branch", CheckName(p.Branch))}
	if p.Kind != kindPiece || p.Epoch < 1 || p.Number < 1 || p.Offset < 0 || !pieceFile.MatchString(p.File) || !digestForm.MatchString(p.Digest) || (p.Number == 1) != (p.Previous == "") {
		faults = append(faults, errors.New("it is no piece of a second copy"))
	}
	return errors.Join(faults...)
}
