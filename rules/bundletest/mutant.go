package bundletest

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Mutator makes mutants of one bundle; it is not safe for concurrent use.
type Mutator struct {
	data    []byte
	entries []Entry           // none: the bundle to mutate is not an archive
	writers [10]*flate.Writer // by level; a new one costs more than writing an entry
}

// NewMutator reads a bundle once for all its mutants.
func NewMutator(t testing.TB, data []byte) *Mutator {
	t.Helper()
	m := &Mutator{data: data}
	if _, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil {
		m.entries = Entries(t, data)
	}
	return m
}

// Mutant is a bundle that somebody without a key has changed: its bytes, the JSON of its signed manifest or inside it,
// or the entries of its archive. If the bundle is not an archive, only bytes are changed.
func (m *Mutator) Mutant(t testing.TB, r *rand.Rand) []byte {
	t.Helper()
	if len(m.entries) == 0 || r.IntN(6) == 0 {
		return bend(slices.Clone(m.data), r)
	}
	list := slices.Clone(m.entries)
	for range 1 + r.IntN(2) {
		switch r.IntN(3) {
		case 0:
			list = shuffleEntries(list, r)
		default:
			list[0].Content, list[0].Raw = mutantJWS(list[0].Content, r), nil
		}
	}
	return m.canonicalArchive(t, list, r.IntN(8) > 0, r)
}

// bend changes a few bytes.
func bend(data []byte, r *rand.Rand) []byte {
	for range 1 + r.IntN(3) {
		if len(data) == 0 {
			return []byte{byte(r.Uint32())}
		}
		at := r.IntN(len(data))
		switch r.IntN(6) {
		case 0, 1:
			data[at] ^= 1 << r.IntN(8)
		case 2:
			data = slices.Delete(data, at, min(len(data), at+1+r.IntN(16)))
		case 3:
			data = slices.Insert(data, at, data[:min(len(data), r.IntN(16))]...)
		case 4:
			data = data[:at]
		default:
			data = append(data, byte(r.Uint32()))
		}
	}
	return data
}

// canonicalArchive writes entries. If alike is set, they have the date and flags of a bundle, so only the mutation
// differs; otherwise each entry has one more difference. The compressor's level is random.
func (m *Mutator) canonicalArchive(t testing.TB, list []Entry, alike bool, r *rand.Rand) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	level, again := r.IntN(10), r.IntN(16) == 0
	// one entry is closed before the next begins
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (_ io.WriteCloser, err error) {
		if m.writers[level] == nil {
			m.writers[level], err = flate.NewWriter(to, level)
			return m.writers[level], err
		}
		m.writers[level].Reset(to)
		return m.writers[level], nil
	})
	for _, e := range list {
		h := zip.FileHeader{Name: e.Header.Name, Method: zip.Deflate, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0,
			time.UTC)}
		if alike && !again && e.Raw != nil && !strings.HasSuffix(h.Name, "/") {
			h = e.Header // flags and date of the bundle
			f, err := w.CreateRaw(&h)
			if err == nil {
				_, err = f.Write(e.Raw)
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !alike {
			switch r.IntN(5) {
			case 0:
				h.Method = zip.Store
			case 1:
				h.Modified = h.Modified.Add(2 * time.Second)
			case 2:
				h.ExternalAttrs = r.Uint32()
			case 3:
				h.Comment = "x"
			default:
				h.Extra = []byte{1, 0, 0, 0}
			}
		}
		f, err := w.CreateHeader(&h)
		if err == nil && !strings.HasSuffix(h.Name, "/") { // a folder has no content
			_, err = f.Write(e.Content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func shuffleEntries(list []Entry, r *rand.Rand) []Entry {
	list = slices.Clone(list)
	at := r.IntN(len(list))
	switch r.IntN(7) {
	case 0:
		return slices.Insert(list, r.IntN(len(list)+1), list[at])
	case 1:
		return slices.Delete(list, at, at+min(1, len(list)-1)) // an archive keeps at least one entry
	case 2:
		to := r.IntN(len(list))
		list[at], list[to] = list[to], list[at]
	case 3:
		list[at].Header.Name = fold(list[at].Header.Name, r)
	case 4:
		list = append(list, Entry{Header: zip.FileHeader{Name: "zz"}, Content: []byte("x")})
	case 5:
		list = append(list, Entry{Header: zip.FileHeader{Name: "zz/"}})
	default:
		list[at].Content, list[at].Raw = bend(slices.Clone(list[at].Content), r), nil
	}
	return list
}

// mutantJWS changes the envelope, the payload in it, or a protected header.
func mutantJWS(text []byte, r *rand.Rand) []byte {
	if r.IntN(3) > 0 {
		return mutantJSON(text, r)
	}
	// The inner part is signed: every change of it must be refused.
	for _, name := range []string{`"payload":"`, `"protected":"`}[r.IntN(2):] {
		at := bytes.Index(text, []byte(name))
		if at < 0 {
			continue
		}
		at += len(name)
		end := at + max(0, bytes.IndexByte(text[at:], '"'))
		inner, err := base64.RawURLEncoding.DecodeString(string(text[at:end]))
		if err != nil {
			continue
		}
		return slices.Concat(text[:at], []byte(base64.RawURLEncoding.EncodeToString(mutantJSON(inner, r))), text[end:])
	}
	return bend(slices.Clone(text), r)
}

// fold changes the case of one letter, sometimes to a letter that only Unicode folds to it.
func fold(name string, r *rand.Rand) string {
	if name == "" {
		return "x"
	}
	at := r.IntN(len(name))
	c := name[at : at+1]
	switch {
	case c == "s" && r.IntN(2) == 0:
		c = "ſ"
	case c == "k" && r.IntN(2) == 0:
		c = "\u212a" // the Kelvin sign
	case c == strings.ToUpper(c):
		c = strings.ToLower(c)
	default:
		c = strings.ToUpper(c)
	}
	return name[:at] + c + name[at+1:]
}

type jsonMember struct {
	name  string // with its quotes
	value []byte
}

// mutantJSON changes the structure or a value of a JSON document, at any depth. If text is not JSON, it changes bytes.
func mutantJSON(text []byte, r *rand.Rand) []byte {
	trimmed := bytes.TrimSpace(text)
	switch {
	case !json.Valid(text) || r.IntN(12) == 0:
		return bend(slices.Clone(text), r)
	case trimmed[0] == '{':
		return mutantObject(trimmed, r)
	case trimmed[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(trimmed, &list) != nil || len(list) == 0 {
			return []byte(`[null]`)
		}
		at := r.IntN(len(list))
		switch r.IntN(4) {
		case 0:
			list = slices.Insert(list, at, list[r.IntN(len(list))])
		case 1:
			list = slices.Delete(list, at, at+1)
		default:
			list[at] = mutantJSON(list[at], r)
		}
		b := []byte{'['}
		for i, e := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, e...)
		}
		return append(b, ']')
	case trimmed[0] == '"':
		return mutantText(trimmed, r)
	}
	return []byte([]string{"null", "0", `""`, "{}", "[]", "1e2", "true"}[r.IntN(7)])
}

// mutantText changes a text: base64 written in another way, escapes, or another text.
func mutantText(quoted []byte, r *rand.Rand) []byte {
	inner := string(quoted[1 : len(quoted)-1])
	at := 0
	if len(inner) > 0 {
		at = r.IntN(len(inner))
	}
	switch r.IntN(8) {
	case 0:
		inner += "="
	case 1:
		inner = inner[:at] + `\n` + inner[at:]
	case 2:
		inner = strings.NewReplacer("-", "+", "_", "/").Replace(inner)
	case 3:
		if at < len(inner) && inner[at] != '\\' {
			inner = inner[:at] + `\u00` + string("0123456789abcdef"[inner[at]>>4]) +
				string("0123456789abcdef"[inner[at]&15]) + inner[at+1:]
		}
	case 4:
		if n := len(inner); n > 0 { // the last letter may have bits without meaning
			inner = inner[:n-1] + string(inner[n-1]+1)
		}
	case 5:
		inner = "AAAA"
	case 6:
		return []byte("null")
	default:
		return bend(slices.Clone(quoted), r)
	}
	return []byte(`"` + inner + `"`)
}

func mutantObject(text []byte, r *rand.Rand) []byte {
	var members []jsonMember
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return text
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return text
		}
		quoted, _ := json.Marshal(name) // a text
		members = append(members, jsonMember{string(quoted), value})
	}
	if len(members) == 0 {
		return []byte(`{"x":1}`)
	}
	at := r.IntN(len(members))
	m := members[at]
	space := ""
	switch r.IntN(11) {
	case 0:
		m.name = `"` + fold(m.name[1:len(m.name)-1], r) + `"`
		if r.IntN(2) == 0 {
			m.value = []byte(`"AAAA"`)
		}
		members = slices.Insert(members, r.IntN(len(members)+1), m)
	case 1:
		members[at].name = `"` + fold(m.name[1:len(m.name)-1], r) + `"`
	case 2:
		members = slices.Insert(members, r.IntN(len(members)+1), m)
	case 3:
		m.value = []byte([]string{`"AAAA"`, "null", "{}", "[]", "0"}[r.IntN(5)])
		members = slices.Insert(members, r.IntN(len(members)+1), m)
	case 4:
		members = append(members, jsonMember{[]string{`"x"`, `"header"`, `"signatures"`, `"payload.x"`, `""`,
			`"signatures[0].protected"`}[r.IntN(6)], []byte([]string{`1`, `null`, `{}`, `[]`,
			`{"alg":"none"}`}[r.IntN(5)])})
	case 5:
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	case 6:
		space = []string{" ", "\n", "\t\r\n ", "\u00a0", "\ufeff", "//x\n"}[r.IntN(6)]
	case 7:
		if c := m.name[1]; len(m.name) > 2 {
			members[at].name = `"\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) +
				m.name[2:]
		}
	case 8:
		members = slices.Delete(members, at, at+1)
	default:
		members[at].value = mutantJSON(m.value, r)
	}
	b := []byte(space + "{")
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, space+m.name+space+":"+space...)
		b = append(append(b, m.value...), space...)
	}
	return append(b, "}"+space...)
}
