package bundletest

import (
	"archive/zip"
	"bytes"
	"io"
	"testing"
)

// Entry is a file of an archive as stored there.
type Entry struct {
	Header  zip.FileHeader
	Content []byte
	Raw     []byte // as it is compressed; nil when Content was changed
}

// Entries reads a bundle's archive.
func Entries(t testing.TB, data []byte) (list []Entry) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		from, err := f.OpenRaw()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Entry{f.FileHeader, content, raw})
	}
	return list
}

// Archive writes entries as any zip program would, with the name, date and attributes of their headers.
func Archive(t testing.TB, list []Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range list {
		h := zip.FileHeader{Name: e.Header.Name, Comment: e.Header.Comment, Method: e.Header.Method,
			Modified: e.Header.Modified.UTC(), ExternalAttrs: e.Header.ExternalAttrs}
		f, err := w.CreateHeader(&h)
		if err == nil {
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

// Tampered is a bundle whose signed manifest somebody without a key has written in another way.
func Tampered(t testing.TB, data []byte, change func(signed string) string) []byte {
	t.Helper()
	list := Entries(t, data)
	list[0].Content = []byte(change(string(list[0].Content)))
	return Archive(t, list)
}

// Payload appends another payload to a signed manifest, under a name that only a reader that ignores case recognises.
func Payload(signed string) string { return signed[:len(signed)-1] + `,"Payload":"AAAA"}` }
