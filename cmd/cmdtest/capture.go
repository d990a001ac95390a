package cmdtest

import (
	"io"
	"os"
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
