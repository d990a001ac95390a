package bundle

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"

	"dtegate/rules/signed"
)

func TestCosign(t *testing.T) {
	old, oldSigner := key(t, '1')
	next, nextSigner := key(t, '2')
	third, thirdSigner := key(t, '3')
	parts, m := sample()
	alone, err := Write(parts, m, oldSigner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Cosign(alone, []Key{next}, nextSigner); !errors.Is(err, ErrSignature) {
		t.Errorf("cosigned what nobody known has signed: %v", err)
	}
	both, err := Cosign(alone, []Key{old}, nextSigner)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Cosign(both, []Key{next}, thirdSigner)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := (Keys{[]Key{old}, 1}).Read(alone)
	for _, c := range []struct {
		name    string
		data    []byte
		keys    Keys
		signers []string
	}{
		{"rotation: a branch with the old key", both, Keys{[]Key{old}, 1}, []string{"1"}},
		{"rotation: a branch with the new key", both, Keys{[]Key{next}, 1}, []string{"2"}},
		{"two of three", both, Keys{[]Key{third, next, old}, 2}, []string{"2", "1"}},
		{"three of three", all, Keys{[]Key{old, next, third}, 3}, []string{"1", "2", "3"}},
		{"too few", both, Keys{[]Key{old, third}, 2}, nil},
	} {
		b, err := c.keys.Read(c.data)
		if c.signers == nil {
			if !errors.Is(err, ErrSignature) || !strings.Contains(err.Error(),
				"1 of the 2 pinned keys have signed (1), 2 must") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || !slices.Equal(b.Signers, c.signers) || b.Digest != first.Digest {
			t.Errorf("%s: %+v, %v", c.name, b, err)
		}
	}
	// Signing again with the same key adds nothing; too many signatures are refused without a look at any.
	crowd := all
	for range signed.MaxSignatures - 2 {
		if crowd, err = Cosign(crowd, []Key{old}, oldSigner); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (Keys{[]Key{old}, 1}).Read(crowd); !errors.Is(err, ErrSignature) || !strings.Contains(err.Error(),
		"has 17 signatures") {
		t.Errorf("a crowd of signatures: %v", err)
	}
}

// plainArchive is an archive of a source folder that nobody has signed.
func plainArchive(t *testing.T) []byte {
	t.Helper()
	data, err := assemble([]file{compress("manifest.json", []byte("{}"))})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The error says in words what is wrong with a signature, with the names that were found.
func TestKeys_Words(t *testing.T) {
	one, oneSigner := key(t, '1')
	two, twoSigner := key(t, '2')
	parts, m := sample()
	good, err := Write(parts, m, oneSigner)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Inspect(good)
	if err != nil {
		t.Fatal(err)
	}
	m.Version = "1.2.4"
	other, err := Write(parts, m, Signer{ID: "1", Private: twoSigner.Private})
	if err != nil {
		t.Fatal(err)
	}
	m.Version = "1.2.5"
	unnamed, err := Write(parts, m, Signer{ID: "b", Private: twoSigner.Private})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		keys Keys
		want string
	}{
		"nobody's": {good, Keys{[]Key{two}, 1},
			`0 of the 1 pinned keys have signed: it is signed by "1", and pinned here are "2"`},
		"of the same name": {other, Keys{[]Key{one}, 1},
			`0 of the 1 pinned keys have signed: the signature that calls its key "1" does not fit: the bundle was tampered with, or another key of that name signed it`},
		"too few": {unnamed, Keys{[]Key{one, two}, 2}, "1 of the 2 pinned keys have signed (2), 2 must"},
		"a part": {repacked(t, b.signed, map[string][]byte{"module.wasm": []byte("\x00asn"),
			"schema.json": []byte("{}"), "overlay.json": []byte("{}")}), Keys{[]Key{one}, 1},
			"tampered with: a part is not the one that was signed: module.wasm"},
		"a plain archive": {plainArchive(t), Keys{[]Key{one}, 1}, "it is unsigned"},
	} {
		if _, err := c.keys.Read(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", name, c.want, err)
		}
	}
	b, err = Keys{[]Key{one, two}, 1}.Read(unnamed)
	if err != nil {
		t.Fatal(err)
	}
	if got := (Keys{[]Key{one, two},
		1}).Misnamed(b); got != `the signature calls its key "b", and that key is pinned here as "2": sign it with --key-id 2` {
		t.Errorf("a wrong name: %q", got)
	}
	if b, err = (Keys{[]Key{one}, 1}).Read(good); err != nil || (Keys{[]Key{one}, 1}).Misnamed(b) != "" {
		t.Errorf("the right name: %q, %v", Keys{[]Key{one}, 1}.Misnamed(b), err)
	}
}

func TestReopen(t *testing.T) {
	k, s := key(t, '1')
	parts, m := sample()
	data, _ := Write(parts, m, s)
	b, err := (Keys{Pinned: []Key{k}}).Read(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Reopen(data, b.Digest)
	if err != nil || again.Digest != b.Digest || again.Manifest.Name != b.Manifest.Name || len(again.Signers) != 0 {
		t.Errorf("got %+v, %v", again, err)
	}
	if _, err := Reopen(data, strings.Repeat("0", 64)); !errors.Is(err, ErrDigest) {
		t.Errorf("another bundle than the record's: %v", err)
	}
	if _, err := Reopen(bytes.Replace(data, []byte("schema.json"), []byte("schemo.json"), 2), b.Digest); !errors.Is(err,
		ErrDigest) {
		t.Errorf("a part renamed: %v", err)
	}
}

// TestKeys_Twin: a key that is pinned under several names is one signer, in a set that Check refuses too.
func TestKeys_Twin(t *testing.T) {
	a, signerA := key(t, '1')
	b, signerB := key(t, '2')
	twin := Key{ID: "twin", Public: a.Public}
	for _, c := range []struct {
		signers []Signer
		pinned  []Key
		need    int
		ok      bool
	}{
		{[]Signer{signerA}, []Key{a, twin}, 1, true},
		{[]Signer{signerA}, []Key{a, twin}, 2, false},
		{[]Signer{signerA}, []Key{twin, a, b}, 2, false},
		{[]Signer{signerA, signerA}, []Key{a, twin, b}, 2, false},
		{[]Signer{signerA, signerB}, []Key{a, twin, b}, 2, true},
		{[]Signer{signerA, signerB}, []Key{a, twin, b}, 3, false},
	} {
		parts, m := sample()
		data, err := Write(parts, m, c.signers...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Inspect(data)
		if err != nil {
			t.Fatal(err)
		}
		if signers, err := (Keys{c.pinned, c.need}).Vouch(got); (err == nil) != c.ok {
			t.Errorf("%d of %d keys, %d must sign: %q, %v", len(c.signers), len(c.pinned), c.need, signers, err)
		}
	}
}

func TestKeys_Check(t *testing.T) {
	a, _ := key(t, '1')
	b, _ := key(t, '2')
	for text, k := range map[string]Keys{
		"":                                  {[]Key{a, b}, 2},
		"0 keys are pinned":                 {},
		"1 keys are pinned":                 {[]Key{a}, 2},
		`the name or the key of "1"`:        {[]Key{a, {ID: "other", Public: a.Public}, b}, 2},
		`"short": it is not an Ed25519 key`: {[]Key{a, {ID: "short", Public: ed25519.PublicKey("x")}}, 1},
	} {
		if err := k.Check(); text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(),
			text)) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
}

func TestRead_Sizes(t *testing.T) {
	k, s := key(t, '1')
	if _, err := (Keys{Pinned: []Key{k}}).Read(make([]byte, 100<<20)); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "104857600 bytes") {
		t.Errorf("100 MiB: %v", err)
	}
	parts, m := sample()
	parts["module.wasm"] = make([]byte, 100<<20) // 100 KiB when packed
	if _, err := Write(parts, m, s); !errors.Is(err, ErrTooLarge) {
		t.Errorf("writing a module of 100 MiB: %v", err)
	}
	bomb, _ := unlimited(t, parts, m, s)
	if _, err := (Keys{Pinned: []Key{k}}).Read(bomb); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(),
		"module.wasm") {
		t.Errorf("a packed module of 100 MiB: %v", err)
	}
}
