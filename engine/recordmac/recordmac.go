// Package recordmac marks the records of rules and of people's acts that this box itself wrote. A person who can write
// a backup can write such records too, but cannot make the mark, because its key is never in the store. The mark shows
// which records this box wrote, and which came with a backup or a second copy.
package recordmac

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Key makes and checks marks. A nil Key makes no marks, and recognises no mark as its own.
type Key struct{ secret []byte }

const (
	secretSize = 32
	idSize     = 8  // hex digits of a key's name in a mark
	markSize   = 64 // hex digits of the mark itself
)

// New returns a random key.
func New() *Key {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails since Go 1.24
	return &Key{secret}
}

// Parse reads a key from the contents of its file.
func Parse(text []byte) (*Key, error) {
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != secretSize {
		return nil, errors.New("a box key is 32 bytes in hex")
	}
	return &Key{secret}, nil
}

// Text returns the key in the form that Parse reads. It is a secret.
func (k *Key) Text() []byte { return append(hex.AppendEncode(nil, k.secret), '\n') }

// ID returns eight hex digits that name the key and do not disclose it.
func (k *Key) ID() string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte("dtegate box key"))
	return hex.EncodeToString(mac.Sum(nil))[:idSize]
}

// Place is the position of a record. A mark is valid in its place only.
type Place struct {
	Series string
	Number uint64   // of the record in its series
	Code   [16]byte // of the record
	State  uint8
}

// Verdict is the result of checking a record's mark.
type Verdict string

const (
	// Own: this box wrote the record in this form.
	Own Verdict = "own"
	// None: the record has no mark. It is older than the box's key, or was written by somebody else.
	None Verdict = "none"
	// Other: the record has the mark of another box. This box cannot check whether it was altered.
	Other Verdict = "other"
	// Altered: the mark names this box but is wrong. Somebody has rewritten the record.
	Altered Verdict = "altered"
)

const member = `,"mark":"`

// Mark appends the key's mark to a record's head, a JSON object with members, as the last member, "mark".
func (k *Key) Mark(head []byte, at Place) []byte {
	if k == nil {
		return head
	}
	body, _ := cut(head)
	marked := append(bytes.TrimSuffix(bytes.Clone(body), []byte("}")), member...)
	return fmt.Appendf(marked, `%s%x"}`, k.ID(), k.sum(body, at))
}

// Check returns the verdict on the mark in a record's head.
func (k *Key) Check(head []byte, at Place) Verdict {
	body, mark := cut(head)
	switch {
	case mark == "":
		return None
	case k == nil || mark[:idSize] != k.ID():
		return Other
	}
	if !hmac.Equal([]byte(mark[idSize:]), hex.AppendEncode(nil, k.sum(body, at))) {
		return Altered
	}
	return Own
}

// cut removes the mark from a head and returns both; mark is "" if the head has no mark.
func cut(head []byte) (body []byte, mark string) {
	const length = len(member) + idSize + markSize + len(`"}`)
	if len(head) <= length || !bytes.HasSuffix(head, []byte(`"}`)) ||
		string(head[len(head)-length:][:len(member)]) != member {
		return head, ""
	}
	mark = string(head[len(head)-length+len(member) : len(head)-len(`"}`)])
	return append(bytes.Clone(head[:len(head)-length]), '}'), mark
}

// sum returns the HMAC over the place and the head without its mark. Each part is preceded by its length.
func (k *Key) sum(body []byte, at Place) []byte {
	mac := hmac.New(sha256.New, k.secret)
	for _, b := range [][]byte{[]byte("dtegate record"), []byte(at.Series), binary.BigEndian.AppendUint64(nil,
		at.Number), at.Code[:], {at.State}, body} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		mac.Write(b)
	}
	return mac.Sum(nil)
}
