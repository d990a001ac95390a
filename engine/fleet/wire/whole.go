package wire

import (
	"errors"
	"fmt"
	"time"
)

// WholeCopy is the mark that the pieces of an epoch hold the box's whole store, at least up to a piece. A box that takes a
// branch over ships everything again, the oldest first. Before the box has written this mark, a rebuild should use the copy of
// the previous box.
type WholeCopy struct {
	Kind   string    `json:"kind"` // "whole"
	Branch string    `json:"branch"`
	Epoch  int64     `json:"epoch"`
	Piece  int64     `json:"piece"` // 1 or more
	At     time.Time `json:"at"`
}

// SealWholeCopy signs a mark with the box's key.
func SealWholeCopy(w WholeCopy, box Signer) ([]byte, error) {
	w.Kind = kindWholeCopy
	return seal("whole copy", &w, box)
}

// OpenWholeCopy reads and verifies the mark of a box's epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func OpenWholeCopy(data []byte, branch string, epoch int64, box Key) (*WholeCopy, error) {
	w := new(WholeCopy)
	if _, err := openSealed("whole copy", data, []Key{box}, w); err != nil {
		return nil, err
	}
	if w.Branch != branch || w.Epoch != epoch {
		return nil, fmt.Errorf("%w: whole copy of %s, epoch %d", ErrOther, w.Branch, w.Epoch)
	}
	return w, nil
}

const kindWholeCopy = "whole"

func (w *WholeCopy) check() error {
	faults := []error{fieldError("branch", CheckName(w.Branch))}
	if w.Kind != kindWholeCopy || w.Epoch < 1 || w.Piece < 1 || w.At.IsZero() {
		faults = append(faults, errors.New("it does not say that a copy is whole"))
	}
	return errors.Join(faults...)
}
