//go:build !race

package gateway

import (
	"testing"
	"time"
)

// TestTokenTable_Allocations: a token is looked up three times for a sale, with two allocations each time.
func TestTokenTable_Allocations(t *testing.T) {
	secret := []byte("secret of the test")
	table := NewTokenTable(secret, []Token{{ID: 77, Hash: keyed("token", secret)}})
	if n := testing.AllocsPerRun(100, func() {
		if table.find("token", time.Time{}) == nil || table.find("other", time.Time{}) != nil {
			t.Fatal("the wrong token")
		}
	}); n > 4 {
		t.Errorf("two look-ups make %v allocations", n)
	}
	if none := (TokenTable{}); none.find("token", time.Time{}) != nil {
		t.Error("a token of no table")
	}
}
