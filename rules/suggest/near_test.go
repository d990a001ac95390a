package suggest

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	names := []string{"version", "validity", "fuel"}
	for _, c := range []struct {
		written        string
		name, distance int
	}{{"verison", 0, 2}, {"Fuel", 2, 0}, {"fuell", 2, 1}, {"valid", 1, 3}, {"", 2, 4}, {strings.Repeat("x", 41), 0,
		2 * longest}} {
		if i, d := Of(c.written, names); i != c.name || d != c.distance {
			t.Errorf("%q: name %d at %d, want %d at %d", c.written, i, d, c.name, c.distance)
		}
	}
	if i, _ := Of("x", nil); i != -1 {
		t.Errorf("of no names: %d", i)
	}
}

func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"items", "item", 1}, {"cantidad", "cantdiad", 2},
		{strings.Repeat("x", 41), "x", 2 * longest}} {
		if got := letterChanges(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
