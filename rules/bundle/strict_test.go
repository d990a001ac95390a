package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// signedText is the signed manifest of a bundle; repacked is the bundle with another signed manifest.
func signedText(t testing.TB, data []byte) string {
	t.Helper()
	files, err := unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := files[0].content(maxJWS)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func repacked(t testing.TB, signed string, parts map[string][]byte) []byte {
	t.Helper()
	data, err := pack(signed, parts)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRead_OneForm: without a key, anybody can write a validly signed manifest in other ways. Each is refused, or read
// as the same bundle. The same bytes are stored of it each time, and what Read accepts, Reopen accepts.
func TestRead_OneForm(t *testing.T) {
	k, s := key(t, '1')
	_, other := key(t, '2')
	parts, m := sample()
	good, err := Write(parts, m, s)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Write(parts, m, s, other)
	if err != nil {
		t.Fatal(err)
	}
	text, several := signedText(t, good), signedText(t, two)
	edit := func(old, with string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("the signed manifest has no %s", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	payload := text[strings.Index(text, `"payload":"`)+11:]
	payload = payload[:strings.IndexByte(payload, '"')]
	for name, c := range map[string]struct {
		signed string
		refuse string // "": read
	}{
		"as written":         {text, ""},
		"white space":        {edit(`{`, "{\n\t "), ""},
		"white space behind": {text + "\n", ""},
		"another order": {`{"signature"` + text[strings.Index(text, `"signature"`)+11:len(text)-1] +
			"," + text[1:strings.Index(text, `,"signature"`)] + "}", ""},
		"one signature in a list":     {edit(`"protected"`, `"signatures":[{"protected"`) + "]}", ""},
		"two signatures":              {several, ""},
		"Payload beside payload":      {text[:len(text)-1] + `,"Payload":"AAAA"}`, "Payload"},
		"Payload alone":               {edit(`"payload"`, `"Payload"`), "Payload"},
		"payload with ſ":              {text[:len(text)-1] + `,"ſignature":"AAAA"}`, "no such field"},
		"payload twice":               {text[:len(text)-1] + `,"payload":"` + payload + `"}`, "twice"},
		"payload twice, one escaped":  {text[:len(text)-1] + `,"p\u0061yload":"AAAA"}`, "twice"},
		"unknown member":              {text[:len(text)-1] + `,"x":1}`, "no such field"},
		"unprotected header":          {text[:len(text)-1] + `,"header":{"alg":"none"}}`, "no such field"},
		"Protected in a list":         {strings.Replace(several, `[{`, `[{"Protected":"e30",`, 1), "no such field"},
		"signature beside signatures": {several[:len(several)-1] + `,"protected":"e30","signature":"AAAA"}`, "both"},
		"signatures null":             {text[:len(text)-1] + `,"signatures":null}`, "null"},
		"no signature": {`{"payload":"` + payload + `","signatures":[]}`,
			"it is unsigned: manifest.jws has no signature"},
		"something behind":          {text + `{}`, "follows"},
		"something behind, no JSON": {text + "\x00", "follows"},
		"base64 with padding":       {edit(`"`+payload+`"`, `"`+payload+`="`), "base64url"},
		"base64 with a line break":  {edit(`"`+payload+`"`, `"`+payload[:8]+`\n`+payload[8:]+`"`), "base64url"},
		"not UTF-8":                 {text[:len(text)-1] + ",\"\xff\":1}", "UTF-8"},
		"names with dots":           {text[:len(text)-1] + `,"signatures[0].protected":"AAAA"}`, "no field"},
		"unsigned algorithm": {edit(text[strings.Index(text, `"protected":"`)+13:strings.Index(text,
			`","signature"`)], base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))), "algorithm"},
		"a header with an unknown claim": {edit(text[strings.Index(text, `"protected":"`)+13:strings.Index(text,
			`","signature"`)],
			base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","crit":["b64"],"b64":false}`))),
			"no such field"},
	} {
		data := repacked(t, c.signed, parts)
		b, err := (Keys{Pinned: []Key{k}}).Read(data)
		switch {
		case c.refuse != "":
			if err == nil || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%s: want %q, got %v", name, c.refuse, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", name, err)
			continue
		}
		stored, err := b.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool][]byte{true: two, false: good}[c.signed == several]; !bytes.Equal(stored, want) {
			t.Errorf("%s: stored in other bytes", name)
		}
		if again, err := Reopen(stored, b.Digest); err != nil || again.Digest != b.Digest {
			t.Errorf("%s: opened again: %v", name, err)
		}
	}
}

// TestRead_OneArchive: an archive has one form; one that another zip program would read differently, or read past, is
// refused.
func TestRead_OneArchive(t *testing.T) {
	k, s := key(t, '1')
	parts, m := sample()
	good, err := Write(parts, m, s)
	if err != nil {
		t.Fatal(err)
	}
	// rewrite copies the entries into another archive, each one changed.
	day := written
	rewrite := func(comment string, change func(i int, h *zip.FileHeader, raw []byte) []byte) []byte {
		files, err := unpack(good)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for i, f := range files {
			h := zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: day}
			if _, err := zip.NewWriter(new(bytes.Buffer)).CreateHeader(&h); err != nil {
				t.Fatal(err)
			}
			raw := slices.Clone(f.raw)
			h.CRC32, h.UncompressedSize64 = f.crc, f.size
			raw = change(i, &h, raw)
			h.CompressedSize64 = uint64(len(raw))
			e, err := w.CreateRaw(&h)
			if err == nil {
				_, err = e.Write(raw)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.SetComment(comment), w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	same := func(_ int, _ *zip.FileHeader, raw []byte) []byte { return raw }
	if !bytes.Equal(rewrite("", same), good) {
		t.Fatal("the test rewrites an archive in other bytes")
	}
	last := len(parts)
	files, err := unpack(good)
	if err != nil {
		t.Fatal(err)
	}
	doubled, err := assemble(append(files, files[last]))
	if err != nil {
		t.Fatal(err)
	}
	day = written.AddDate(0, 0, 1)
	dated := rewrite("", same)
	day = written
	for name, data := range map[string][]byte{
		"a comment":          rewrite("hello", same),
		"something in front": append([]byte("#!/bin/sh\n"), good...),
		"something behind":   append(slices.Clone(good), 0),
		"an attribute": rewrite("", func(_ int, h *zip.FileHeader,
			raw []byte) []byte {
			h.ExternalAttrs = 0o777 << 16
			return raw
		}),
		"an entry's comment": rewrite("", func(_ int, h *zip.FileHeader,
			raw []byte) []byte {
			h.Comment = "x"
			return raw
		}),
		"an extra field": rewrite("", func(_ int, h *zip.FileHeader,
			raw []byte) []byte {
			h.Extra = append(h.Extra, 1, 0, 0, 0)
			return raw
		}),
		"another date": dated,
		"no data descriptor": rewrite("", func(_ int, h *zip.FileHeader,
			raw []byte) []byte {
			h.Flags = 0
			return raw
		}),
		"encrypted": rewrite("", func(_ int, h *zip.FileHeader,
			raw []byte) []byte {
			h.Flags |= 1
			return raw
		}),
		"hidden behind a part": rewrite("", func(i int, _ *zip.FileHeader, raw []byte) []byte {
			return append(raw,
				"hidden"[:6*i/last]...)
		}),
		"a wrong size": rewrite("", func(i int, h *zip.FileHeader, raw []byte) []byte {
			h.UncompressedSize64 += uint64(i / last)
			return raw
		}),
		"a wrong CRC": rewrite("", func(i int, h *zip.FileHeader,
			raw []byte) []byte {
			h.CRC32 += uint32(i / last)
			return raw
		}),
		"the last part doubled": doubled,
		"a part twice": rewrite("", func(i int, h *zip.FileHeader, raw []byte) []byte {
			if i == last {
				h.Name = "overlay.json"
			}
			return raw
		}),
		"a part in capitals": rewrite("", func(i int, h *zip.FileHeader, raw []byte) []byte {
			if i == last {
				h.Name = "Schema.json"
			}
			return raw
		}),
		"a huge size": rewrite("", func(i int, h *zip.FileHeader, raw []byte) []byte {
			if i == last {
				h.UncompressedSize64 = 1 << 40
			}
			return raw
		}),
	} {
		if b, err := (Keys{Pinned: []Key{k}}).Read(data); err == nil {
			t.Errorf("%s: read as %s", name, b.Digest)
		}
	}
}

// TestManifest_PartNames: a part's name is a path inside the bundle, of characters that a terminal can show.
func TestManifest_PartNames(t *testing.T) {
	_, m := sample()
	for _, name := range []string{"../x", "/etc/passwd", `a\b`, "a//b", "x\x1b[2J", "manifest.jws", "", "a\u202eb",
		strings.Repeat("a", 256)} {
		m.Parts = map[string]string{name: strings.Repeat("0", 64)}
		if err := m.Check(); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestRead_Overlapping: entries that all lie at one place of the archive take no more memory than the archive.
func TestRead_Overlapping(t *testing.T) {
	const entries, size = 200, 1 << 20
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := range entries {
		h := zip.FileHeader{Name: fmt.Sprintf("a%03d", i), Method: zip.Deflate, CompressedSize64: size,
			UncompressedSize64: size}
		if i == 0 {
			h.Name = signature
		}
		f, err := w.CreateRaw(&h)
		if err == nil && i == 0 {
			_, err = f.Write(make([]byte, size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	const header = "PK\x01\x02"
	for at := bytes.Index(data, []byte(header)); at >= 0; {
		copy(data[at+42:], []byte{0, 0, 0, 0}) // the entry's place in the archive
		next := bytes.Index(data[at+1:], []byte(header))
		if next < 0 {
			break
		}
		at += 1 + next
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Inspect(data)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrFormat) || took > 20*size {
		t.Errorf("%v, and it took %d KiB", err, took>>10)
	}
}
