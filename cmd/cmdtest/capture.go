package cmdtest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Capture returns what a run prints.
func Capture(t *testing.T, run func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = before }()
	said := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		said <- string(b)
	}()
	run()
	w.Close()
	return <-said
}

// Golden compares a text with a file of testdata, and shows where they part. With update, it writes the file.
func Golden(t *testing.T, file, got string, update bool) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	is, was := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	at := 0
	for at < min(len(is), len(was))-1 && is[at] == was[at] {
		at++
	}
	t.Errorf("%s:%d: (-args -update writes it anew)\ngot:\n%s\nwant:\n%s", file, at+1,
		strings.Join(is[at:min(len(is), at+8)], "\n"), strings.Join(was[at:min(len(was), at+8)], "\n"))
}
