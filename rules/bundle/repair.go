package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-jose/go-jose/v4"

	"dtegate/rules/signed"
)

// Repair makes the canonical form of a bundle that an earlier version of this program admitted and stored as it came.
// That version read the signed manifest with go-jose alone, and the archive with archive/zip; so does Repair, and
// nobody else. It is no proof of anything: what it returns must pass Reopen, and be vouched for, like any other bundle.
func Repair(data []byte, digest string) ([]byte, error) {
	if len(data) > maxBundle {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrTooLarge, len(data), maxBundle)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(archive.File) == 0 || len(archive.File) > maxParts || archive.File[0].Name != signature {
		return nil, fmt.Errorf("%w: its first file must be %s", ErrFormat, signature)
	}
	room := int64(maxBundle)
	parts := make(map[string][]byte)
	for _, f := range archive.File {
		part, err := readEntry(f, room)
		if err != nil {
			return nil, err
		}
		if _, twice := parts[f.Name]; twice {
			return nil, fmt.Errorf("%w: %s stands twice", ErrFormat, f.Name)
		}
		room -= int64(len(part))
		parts[f.Name] = part
	}
	e, err := tolerant(parts[signature])
	if err != nil {
		return nil, err
	}
	delete(parts, signature)
	text, err := e.Text()
	if err != nil {
		return nil, err
	}
	packed, err := pack(text, parts)
	if err != nil {
		return nil, err
	}
	_, err = Reopen(packed, digest)
	return packed, err
}

// tolerant takes from a signed manifest what go-jose would: members by their exact names, whatever else there is.
func tolerant(text []byte) (*signed.Envelope, error) {
	if _, err := jose.ParseSignedJSON(string(text), []jose.SignatureAlgorithm{jose.EdDSA}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	type members = map[string]json.RawMessage // by their exact names; go-jose has refused those that stand twice
	var whole members
	var several []members
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, signature, err)
	}
	if list := whole["signatures"]; list != nil {
		if err := json.Unmarshal(list, &several); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFormat, signature, err)
		}
	} else {
		several = []members{whole}
	}
	take := func(m members, name string) (s string) {
		_ = json.Unmarshal(m[name], &s) // what is no text is refused by Reopen, as ""
		return s
	}
	e := &signed.Envelope{Payload: take(whole, "payload")}
	for _, m := range several {
		e.Signatures = append(e.Signatures, signed.Signature{Protected: take(m, "protected"), Signature: take(m,
			"signature")})
	}
	return e, nil
}

func readEntry(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s has more than the %d bytes that are left for it", ErrTooLarge, f.Name, limit)
	}
	return b, nil
}
