package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dtegate/rules/signed"
)

func key(t testing.TB, id byte) (Key, Signer) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{id}, 32))
	return Key{ID: string(id), Public: private.Public().(ed25519.PublicKey)}, Signer{ID: string(id), Private: private}
}

func sample() (map[string][]byte, Manifest) {
	return map[string][]byte{"module.wasm": []byte("\x00asm"), "schema.json": []byte("{}"),
			"overlay.json": []byte("{}")},
		Manifest{Name: "x", Version: "1.2.3", Kind: "document", Document: "01", Schema: 2, ABI: 1,
			Validity: map[string]Window{"00": {From: "2026-01-01"}}, Params: []Param{{Name: "r", Value: "0.13",
				Source: "art. 54"}}}
}

func TestRead(t *testing.T) {
	k1, s1 := key(t, '1')
	k2, s2 := key(t, '2')
	parts, m := sample()
	one, err := Write(parts, m, s1)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Write(parts, m, s1)
	if !bytes.Equal(one, again) {
		t.Error("the same bundle came out in other bytes")
	}
	two, err := Write(parts, m, s1, s2)
	if err != nil {
		t.Fatal(err)
	}
	// A part is altered after signing: the archive is rebuilt by hand around the same signature.
	swapped := bytes.Replace(one, []byte("overlay.json"), []byte("overlay.jsom"), 2)
	for _, c := range []struct {
		name      string
		data      []byte
		keys      []Key
		threshold int
		want      error
	}{
		{"good", one, []Key{k1}, 1, nil},
		{"good, another key pinned too", one, []Key{k2, k1}, 1, nil},
		{"two signatures", two, []Key{k1, k2}, 2, nil},
		{"threshold not reached", one, []Key{k1, k2}, 2, ErrSignature},
		{"the same key twice is one signature", one, []Key{k1}, 2, ErrSignature},
		{"no pinned key", one, nil, 1, ErrSignature},
		{"another's key", one, []Key{k2}, 1, ErrSignature},
		{"threshold zero still needs one", one, nil, 0, ErrSignature},
		{"part renamed", swapped, []Key{k1}, 1, ErrDigest},
		{"truncated", one[:len(one)/2], []Key{k1}, 1, ErrFormat},
		{"empty", nil, []Key{k1}, 1, ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := (Keys{c.keys, c.threshold}).Read(c.data)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err == nil && (b.Manifest.Name != "x" || len(b.Parts) != 3 || len(b.Digest) != 64) {
				t.Fatalf("got %+v", b)
			}
		})
	}
}

// TestWrite_Refuses: a bundle that a branch would not read is not signed.
func TestWrite_Refuses(t *testing.T) {
	_, s := key(t, '1')
	for name, harm := range map[string]func(parts map[string][]byte, m *Manifest, signers *[]Signer){
		"no module":        func(parts map[string][]byte, _ *Manifest, _ *[]Signer) { delete(parts, "module.wasm") },
		"no schema":        func(parts map[string][]byte, _ *Manifest, _ *[]Signer) { delete(parts, "schema.json") },
		"a wrong manifest": func(_ map[string][]byte, m *Manifest, _ *[]Signer) { m.Version = "1" },
		"nobody signs":     func(_ map[string][]byte, _ *Manifest, signers *[]Signer) { *signers = nil },
		"too large": func(parts map[string][]byte, _ *Manifest, _ *[]Signer) {
			parts["module.wasm"] = make([]byte, maxBundle+1)
		},
		"a large layout": func(parts map[string][]byte, _ *Manifest, _ *[]Signer) {
			parts["schema.json"] = make([]byte, maxText+1)
		},
		"large catalogues": func(parts map[string][]byte, _ *Manifest, _ *[]Signer) {
			parts["catalogues.json"] = make([]byte, maxLists+1)
		},
		"a large case": func(parts map[string][]byte, _ *Manifest, _ *[]Signer) {
			parts["cases/large.json"] = make([]byte, maxCase+1)
		},
	} {
		parts, m := sample()
		signers := []Signer{s}
		harm(parts, &m, &signers)
		if data, err := Write(parts, m, signers...); err == nil || data != nil {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

// TestWrite_LargeCase: a golden case of 2,000 lines may be larger than a layout. A bundle with one, admitted before there
// was a limit, is opened again at each start.
func TestWrite_LargeCase(t *testing.T) {
	_, s := key(t, '1')
	parts, m := sample()
	parts["cases/lines-2000.json"] = bytes.Repeat([]byte("{\"numItem\":1}\n"), 100_000)
	data, err := Write(parts, m, s)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Inspect(data); err != nil || len(b.Cases()) != 1 {
		t.Errorf("%v, %v", b, err)
	} else if _, err := Reopen(data, b.Digest); err != nil {
		t.Error(err)
	}
}

// unlimited signs a bundle as Write does, but with parts of any size.
func unlimited(t *testing.T, parts map[string][]byte, m Manifest, s Signer) (data, payload []byte) {
	t.Helper()
	m.Parts = make(map[string]string)
	for name, part := range parts {
		m.Parts[name] = sum(part)
	}
	payload, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.Sign(payload, s)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = pack(text, parts); err != nil {
		t.Fatal(err)
	}
	return data, payload
}

// TestReopen_Large: a bundle that was admitted before there was a limit is opened, but not admitted again.
func TestReopen_Large(t *testing.T) {
	k, s := key(t, '1')
	parts, m := sample()
	parts["catalogues.json"] = make([]byte, maxLists+1)
	data, payload := unlimited(t, parts, m, s)
	if _, err := Reopen(data, sum(payload)); err != nil {
		t.Error(err)
	}
	if _, err := (Keys{Pinned: []Key{k}, Threshold: 1}).Read(data); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestCompareCases: copies of one golden case do not count as other cases.
func TestCompareCases(t *testing.T) {
	made := func(cases ...string) *Bundle {
		b := &Bundle{Manifest: Manifest{Parts: map[string]string{}}, Parts: map[string][]byte{}}
		for i, text := range cases {
			name := "cases/" + string(rune('a'+i)) + ".json"
			b.Parts[name], b.Manifest.Parts[name] = []byte(text), sum([]byte(text))
		}
		return b
	}
	before := made("one", "two", "three")
	if _, err := CompareCases(made("one", "one", "one").Different(), before); err == nil {
		t.Error("copies count")
	}
	if _, err := CompareCases(made("one", "three", "four").Different(), before); err != nil {
		t.Error(err)
	}
}

func TestManifest_Faults(t *testing.T) {
	_, m := sample()
	m.Version, m.Kind, m.Params[0].Value = "1.2", "law", "0.123456789"
	m.Validity["02"] = Window{From: "2026-13-01"}
	err := m.Check()
	for _, field := range []string{"version:", "kind:", "params[0].value:", `"02"`, "validity.02.from:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	// A record of a rule shows these texts to operators: with another text, the next start would refuse the record.
	for _, text := range []string{"", "dte01\u00a0", "dte\u001b[31m01", "dte01\n", strings.Repeat("n", 61)} {
		_, m := sample()
		m.Name, m.Document = text, text
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), "name:") ||
			!strings.Contains(err.Error(), "document:") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestParam_Fixed(t *testing.T) {
	for value, want := range map[string]int64{"0.13": 13_000_000, "25000": 2_500_000_000_000, "0.00000001": 1,
		"7.00": 700_000_000} {
		if got, err := (Param{Value: value}).Fixed(); err != nil || got != want {
			t.Errorf("%s: got %d, %v", value, got, err)
		}
	}
	for _, bad := range []string{"", ".5", "1.", "1e2", "-1", "1.123456789", "99999999999999999999", "1.2.3"} {
		if n, err := (Param{Value: bad}).Fixed(); err == nil {
			t.Errorf("%q: got %d", bad, n)
		}
	}
}

func FuzzRead(f *testing.F) {
	k, s := key(f, '1')
	parts, m := sample()
	good, _ := Write(parts, m, s)
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := (Keys{Pinned: []Key{k}}).Read(data)
		if err == nil && b.Manifest.Check() != nil {
			t.Fatal("let a bad manifest out")
		}
	})
}
