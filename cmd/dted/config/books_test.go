package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBooks: values that the manual of the F-07 v14 does not list are refused by name, all at once.
func TestBooks(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "books.toml")
		if err := os.WriteFile(path, []byte("[books]\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b, err := LoadBooks(write("income = 2\nreturns = \"annex2\"\ncancelled_hyphens = false\n[[books.sale]]\nitem = " +
		"2\noperation = 12\n[[books.purchase]]\nestablishment = \"S001\"\ncost = 9\n"))
	if err != nil || b.Income != 2 || b.Returns != "annex2" || b.CancelledHyphens == nil || *b.CancelledHyphens ||
		b.Sale[0].Operation != 12 || b.Purchase[0].Cost != 9 {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := LoadBooks(write("")); err != nil || b.CancelledHyphens != nil {
		t.Errorf("%+v, %v", b, err)
	}
	_, err = LoadBooks(write("operation = 5\nincome = 11\nconsumer_rows = \"day\"\nreturns = \"yes\"\nencoding = " +
		"\"ansi\"\n[[books.sale]]\nestablishment = \"1\"\nitem = 5\n[[books.purchase]]\nsector = 7\nclassification = 3\n"))
	if err == nil {
		t.Fatal("all of it is taken")
	}
	for _, name := range []string{"books.operation", "books.income", "books.consumer_rows", "books.returns",
		"books.encoding", "books.sale[0].establishment", "books.sale[0].item", "books.purchase[0].sector",
		"books.purchase[0].classification"} {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("nothing of %s in: %v", name, err)
		}
	}
	if _, err := LoadBooks(write("incomes = 3\n")); err == nil {
		t.Error("an unknown name is taken")
	}
	if _, err := LoadBooks(filepath.Join(t.TempDir(), "none.toml")); !os.IsNotExist(err) && err == nil {
		t.Error("a file that is not there is taken")
	}
}
