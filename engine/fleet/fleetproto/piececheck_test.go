package fleetproto

import (
	"strings"
	"testing"
)

// TestPiece_Check: epochs and numbers begin with 1, and every piece except the first names the previous piece.
func TestPiece_Check(t *testing.T) {
	before, head := Digest([]byte("before")), Head{"piece", "cadena", "00"}
	for want, list := range map[bool][]Piece{
		true: {{Epoch: 1, Number: 1}, {Epoch: 1, Number: 2, Previous: before}, {Epoch: 7, Number: 9, Previous: before,
			Offset: 1}, {Epoch: 1, First: 3, Number: 9, Last: before}, {Epoch: 1, First: 1, Number: 1}},
		false: {{Epoch: 0, Number: 1}, {Epoch: 1, Number: 0}, {Epoch: 1, Number: 0, Previous: before},
			{Epoch: 1, Number: 1, Previous: before}, {Epoch: 1, Number: 2}, {Epoch: 1, Number: 1, Offset: -1},
			{Epoch: -1, Number: 1}, {Epoch: 1, First: 10, Number: 9}, {Epoch: 1, First: -1, Number: 9},
			{Epoch: 1, First: 1, Number: 9, Last: "?"}},
	} {
		for _, p := range list {
			p.Head, p.Branch, p.File, p.Digest = head, "centro", "0000000001.copy", Digest([]byte("body"))
			if _, err := encode("piece", &p); (err == nil) != want {
				t.Errorf("%+v: %v", p, err)
			}
		}
	}
	p := Piece{Head: head, Branch: "centro", Epoch: 1, Number: 1, Digest: before}
	for _, name := range []string{"", "1.copy", "0000000001.cop", "../000000001.copy", strings.Repeat("0", 11) +
		".copy"} {
		p.File = name
		if _, err := encode("piece", &p); err == nil {
			t.Errorf("%q is a file of a second copy", name)
		}
	}
}
