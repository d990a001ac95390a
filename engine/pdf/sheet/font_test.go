package sheet

import "testing"

// TestFace_Cut: a font file that ends too early is an error, wherever it ends.
func TestFace_Cut(t *testing.T) {
	f, err := LoadFonts()
	if err != nil {
		t.Fatal(err)
	}
	whole := f.faces[0].file
	for _, n := range []int{0, 4, 12, 20, 200, len(whole) / 2} {
		a := face{name: "cut", file: whole[:n]}
		if err := a.parse(); err == nil {
			t.Errorf("of %d bytes the first %d are taken for a font", len(whole), n)
		}
	}
}
