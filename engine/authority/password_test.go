package authority

import (
	"math/rand/v2"
	"strings"
	"testing"

	"dtegate/cmd/dtesim/simulator"
)

// TestPassword_Form: the product's reading of MH's rule and the simulator's agree, and the error does not quote the
// password.
func TestPassword_Form(t *testing.T) {
	for password, want := range map[string]string{
		"secreto-mh.2026": "", "abcdefghij.12": "", "abcdefghijklmnopqrstuv.12": "", "ñandú-áéíóú-1": "",
		"abcdefghij.1": "fewer than 13", "abcdefghijklmnopqrstuvw.12": "more than 25", "1234567890.12": "no letter",
		"abcdefghijk.-": "no digit", "abcdefghijk12": "letters and digits alone", "": "fewer than 13",
	} {
		if err := CheckPassword(password); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(),
			want) {
			t.Errorf("%q: %v, want %q", password, err, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	letters, agreed := []rune("abcXYZñé0123456789٣.-_ ¿€\u0301"), [2]int{}
	for range 20_000 {
		from := r.IntN(len(letters))
		some := letters[from : from+1+r.IntN(len(letters)-from)]
		password := make([]rune, 8+r.IntN(22))
		for i := range password {
			password[i] = some[r.IntN(len(some))]
		}
		ours, theirs := CheckPassword(string(password)), simulator.CheckPassword(string(password))
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("%q: %v, and the simulator: %v", string(password), ours, theirs)
		}
		if ours == nil {
			agreed[1]++
		} else {
			agreed[0]++
		}
	}
	if min(agreed[0], agreed[1]) < 1000 {
		t.Errorf("they prove little: %v", agreed)
	}
}
