package bundle

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

type file struct {
	name string
	crc  uint32
	size uint64 // as the archive declares it
	raw  []byte // deflated
}

// unpack lists the entries of an archive. The archive must have the form that pack writes: manifest.jws first, then the
// parts by name, each deflated, with the same date and flags, without comments, gaps or trailing bytes. Only the
// compressed bytes may vary, because compressors differ. All readers therefore see the same content.
func unpack(data []byte) ([]file, error) {
	if len(data) > maxBundle {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(data), maxBundle)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(archive.File) == 0 || len(archive.File) > maxParts || archive.File[0].Name != signature {
		return nil, fmt.Errorf("%w: its first file must be %s: it is unsigned, see dtectl rules build", ErrFormat,
			signature)
	}
	files, room := make([]file, len(archive.File)), int64(len(data))
	for i, f := range archive.File {
		if i > 1 && f.Name <= archive.File[i-1].Name {
			return nil, fmt.Errorf("%w: %q follows %q: the parts must be sorted by name, without duplicates",
				ErrFormat, f.Name, archive.File[i-1].Name)
		}
		r, err := f.OpenRaw()
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
		}
		files[i] = file{name: f.Name, crc: f.CRC32, size: f.UncompressedSize64}
		// The declared sizes may be false, and entries may overlap: read at most the size of the archive in all.
		if files[i].raw, err = io.ReadAll(io.LimitReader(r, room)); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
		}
		room -= int64(len(files[i].raw))
	}
	again, err := assemble(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: the archive is not in the form that dtectl writes", ErrFormat)
	}
	return files, nil
}

// content decompresses an entry. The result must match the declared size and checksum, and have at most limit bytes.
func (f *file) content(limit int64) ([]byte, error) {
	if f.size > uint64(limit) {
		return nil, fmt.Errorf("%w: %s has more than the %d bytes that are left for it", ErrTooLarge, f.name, limit)
	}
	from := bytes.NewReader(f.raw)
	var b bytes.Buffer
	b.Grow(int(f.size) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(flate.NewReader(from), int64(f.size)+1)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.name, err)
	}
	if uint64(b.Len()) != f.size || from.Len() != 0 || crc32.ChecksumIEEE(b.Bytes()) != f.crc {
		return nil, fmt.Errorf("%w: %s is not what the archive declares", ErrFormat, f.name)
	}
	return b.Bytes(), nil
}

// pack writes the archive. The same signature and parts give the same bytes.
func pack(signed string, parts map[string][]byte) ([]byte, error) {
	var files []file
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		files = append(files, compress(name, parts[name]))
	}
	return packAround(signed, files)
}

func packAround(signed string, parts []file) ([]byte, error) {
	data, err := assemble(append([]file{compress(signature, []byte(signed))}, parts...))
	if err != nil {
		return nil, fmt.Errorf("writing bundle: %w", err)
	}
	return data, nil
}

func compress(name string, data []byte) file {
	var raw bytes.Buffer
	w, _ := flate.NewWriter(&raw, flate.DefaultCompression) // the level is a constant
	_, _ = w.Write(data)                                    // cannot fail: raw is in memory
	_ = w.Close()
	return file{name: name, crc: crc32.ChecksumIEEE(data), size: uint64(len(data)), raw: raw.Bytes()}
}

var written = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func assemble(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		// The entries are compressed already. Give them zip's own flags and date.
		h := zip.FileHeader{Name: f.name, Modified: written}
		if _, err := zip.NewWriter(io.Discard).CreateHeader(&h); err != nil {
			return nil, err
		}
		h.Method, h.CRC32, h.CompressedSize64, h.UncompressedSize64 = zip.Deflate, f.crc, uint64(len(f.raw)), f.size
		entry, err := w.CreateRaw(&h)
		if err == nil {
			_, err = entry.Write(f.raw)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// plainName reports whether a part's name is a path inside the bundle that every system and terminal shows alike.
func plainName(name string) bool {
	return name != signature && len(name) <= 255 && utf8.ValidString(name) && fs.ValidPath(name) &&
		!strings.Contains(name, `\`) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
