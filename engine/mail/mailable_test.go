package mail

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMailable(t *testing.T) {
	longest := strings.Repeat("a", 64) + "@" + strings.Repeat(strings.Repeat("b", 61)+".", 3) + "com" // 254 bytes
	for _, good := range []string{"ana@example.com", "ana.b+compras@mail.example.com.sv", "a_b-c@x1.example",
		"o'brien@example.com", "A@EXAMPLE.COM",
		strings.Repeat("a", 64) + "@example.com", "a@xn--caf-dma.example", "1@9.example", longest} {
		if !Mailable(good) {
			t.Errorf("%s is refused", good)
		}
	}
	for _, bad := range []string{"", "ana", "@example.com", "ana@", "ana@example", "ana@localhost", "ana@@example.com",
		"ana@example..com", "ana@.example.com",
		"ana@example.com.", "ana @example.com", "ana@exam ple.com", "ñandú@example.com", "ana@café.sv",
		"Ana <ana@example.com>", "ana@example.com, eva@example.com",
		"ana@example.com\r\nBcc: eva@example.com", "ana@[192.0.2.1]", "ana@192.0.2.1", "ana@-example.com",
		"ana@example-.com", "ana@exam_ple.com", `"ana b"@example.com`,
		".ana@example.com", "ana.@example.com", "a..b@example.com", strings.Repeat("a", 65) + "@example.com",
		"ana@" + strings.Repeat("a", 64) + ".com", longest + "m",
		"a@" + strings.Repeat(strings.Repeat("a", 60)+".", 4) + "example.com"} {
		if Mailable(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestMailable_Sent: an address that the counter accepts never fails at a real server because of its form.
func TestMailable_Sent(t *testing.T) {
	s := serve(t, nil)
	sender := s.sender(t, nil)
	r := rand.New(rand.NewPCG(1, 2))
	const letters = `aZ09.-_+'!#$%&*/=?^{|}~"\@<>(),;: ñ`
	sent := 0
	for range 40_000 {
		runes := []rune(letters)
		b := make([]rune, 1+r.IntN(12))
		for i := range b {
			b[i] = runes[r.IntN(len(runes))]
		}
		address := string(b) + []string{"@example.com", "@a-b.example.com", ".com", "@x.y"}[r.IntN(4)]
		if !Mailable(address) || sent == 300 {
			continue
		}
		sent++
		if o := sender.Send(t.Context(), letterTo(address)); o.Kind != Sent {
			t.Fatalf("%q is taken at the counter and not by the server: %+v", address, o)
		}
	}
	if sent < 200 {
		t.Errorf("only %d addresses were tried", sent)
	}
}
