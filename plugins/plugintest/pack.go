package plugintest

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/rules/bundle"
	"dtegate/rules/signed"
)

var bundles sync.Map // what Bundle made, by name

// Bundle builds a plugin and signs it, once a process; var/build keeps it for the next process.
//
// The bundle's version is that of the manifest with the last two numbers 1.0, so that a new version of a shipped bundle
// does not change tests that push an older or a newer version.
func Bundle(t testing.TB, name string) []byte {
	t.Helper()
	if b, ok := bundles.Load(name); ok {
		return b.([]byte)
	}
	parts, m := Parts(t, name)
	major, _, _ := strings.Cut(m.Version, ".")
	m.Version = major + ".1.0"
	path := filepath.Join(Root(t), "var", "build", strings.ReplaceAll(name, "/", "-")+bundle.Extension)
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(envelopeOf(data), envelope(t, parts, &m, Signer())) {
		if data, err = bundle.Write(parts, m, Signer()); err != nil {
			t.Fatal(err)
		}
		f, err := os.CreateTemp(filepath.Dir(path), "new-*")
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Close(), os.Rename(f.Name(), path))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bundles.Store(name, data)
	return data
}

// Edition does the work of bundle.Write for parts that are mostly a plugin's own. It copies these from Bundle, still
// compressed: compressing a module takes a tenth of a second.
func Edition(t testing.TB, name string, parts map[string][]byte, m bundle.Manifest, signer bundle.Signer) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	data := Bundle(t, name)
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	own, _ := Parts(t, name)
	add := func(name string, content []byte) {
		t.Helper()
		if part, there := own[name]; there && bytes.Equal(part, content) {
			must(w.Copy(archive.File[slices.IndexFunc(archive.File, func(f *zip.File) bool { return f.Name == name })]))
			return
		}
		var raw bytes.Buffer
		to, err := flate.NewWriter(&raw, flate.DefaultCompression)
		must(err)
		_, err = to.Write(content)
		must(err)
		must(to.Close())
		h := zip.FileHeader{Name: name, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		_, err = zip.NewWriter(io.Discard).CreateHeader(&h) // sets what a bundle's entries have
		must(err)
		h.Method, h.CRC32, h.CompressedSize64, h.UncompressedSize64 = zip.Deflate, crc32.ChecksumIEEE(content),
			uint64(raw.Len()), uint64(len(content))
		entry, err := w.CreateRaw(&h)
		must(err)
		_, err = entry.Write(raw.Bytes())
		must(err)
	}
	add(archive.File[0].Name, envelope(t, parts, &m, signer))
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		add(part, parts[part])
	}
	must(w.Close())
	return out.Bytes()
}

// envelope is the signed manifest of parts.
func envelope(t testing.TB, parts map[string][]byte, m *bundle.Manifest, signer bundle.Signer) []byte {
	t.Helper()
	m.Parts = make(map[string]string, len(parts))
	for name, part := range parts {
		m.Parts[name] = fmt.Sprintf("%x", sha256.Sum256(part))
	}
	payload, err := json.Marshal(m)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.Sign(payload, signer)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

// envelopeOf reads the signed manifest of a bundle; nil if it is not a bundle.
func envelopeOf(data []byte) []byte {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(archive.File) == 0 {
		return nil
	}
	f, err := archive.File[0].Open()
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	return text
}
