package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/engine/documents"
	"dtegate/engine/record"
)

// keyed is the hash of a token, computed as auth.go says.
func keyed(token string, secret []byte) [32]byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(token))
	return [32]byte(mac.Sum(nil))
}

// A token is found by its HMAC under the table's secret and by nothing else: there is no comparison with a stored
// token, whole or in part, that could be timed. A table of plain tokens or of their plain hashes admits nobody.
func TestTokenTable_ByKeyedHash(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	secret := bytes.Repeat([]byte{7}, 32)
	var plain [32]byte
	copy(plain[:], "plain")
	table := NewTokenTable(secret, []Token{
		{ID: 1, Hash: keyed("good", secret), Point: record.Point{ID: 1}},
		{ID: 2, Hash: plain},
		{ID: 3, Hash: sha256.Sum256([]byte("unkeyed"))},
		{ID: 4, Hash: keyed("other branch", bytes.Repeat([]byte{8}, 32))},
		{ID: 5, Hash: keyed("rotated", secret), Until: now},
		{ID: 6, Hash: keyed("in grace", secret), Until: now.Add(1)},
	})
	for token, id := range map[string]int64{"good": 1, "in grace": 6} {
		if k := table.find(token, now); k == nil || k.ID != id {
			t.Errorf("%q: %+v", token, k)
		}
	}
	for _, token := range []string{"", "goo", "good ", "GOOD", string(plain[:]), "plain", "unkeyed", "other branch",
		"rotated"} {
		if k := table.find(token, now); k != nil {
			t.Errorf("%q opens %+v", token, k)
		}
	}
	// By construction: find compares nothing that a stranger chose except through the HMAC.
	source, err := os.ReadFile("auth.go")
	if err != nil {
		t.Fatal(err)
	}
	find := regexp.MustCompile(`(?s)func \(t \*TokenTable\) find.*?\n}\n`).FindString(string(source))
	if !strings.Contains(find, "mac := t.macs.Get()") || !strings.Contains(string(source), "return hmac.New(") ||
		len(regexp.MustCompile(`\btoken\b`).FindAllString(find, -1)) != 2 {
		t.Errorf("find looks at the token otherwise than by its HMAC:\n%s", find)
	}
}

// awaited answers Changes when the test lets it.
type awaited struct {
	*said
	asked, answer chan struct{}
}

func (a *awaited) Changes(ctx context.Context, after uint64, c record.Caller) ([]documents.Late, uint64, error) {
	close(a.asked)
	<-a.answer
	return a.said.Changes(ctx, after, c)
}

// TestChanges_Revoked: a till that waits for results gets none if its token is revoked meanwhile.
func TestChanges_Revoked(t *testing.T) {
	secret := []byte("secret of the test")
	for _, revoked := range []bool{false, true} {
		fake := &awaited{new(said), make(chan struct{}), make(chan struct{})}
		g := New(Options{Sales: fake, Documents: fake, Outbox: fake, Now: time.Now,
			Tokens: NewTokenTable(secret, []Token{{ID: 1, Hash: keyed("may", secret)}})})
		req, err := http.NewRequest(http.MethodGet, served(t, g.Serve)+"/dte/cambios?wait=60", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-token", "may")
		go func() {
			<-fake.asked
			if revoked {
				g.SetTokens(NewTokenTable(secret, nil))
			}
			close(fake.answer)
		}()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if (resp.StatusCode == http.StatusUnauthorized) != revoked {
			t.Errorf("revoked %v: %s", revoked, resp.Status)
		}
	}
}

// tokensOf is a table of tokens, numbered from 1, which may issue invoices.
func tokensOf(names ...string) TokenTable {
	secret := []byte("secret of the test")
	var tokens []Token
	for i, name := range names {
		tokens = append(tokens, Token{ID: int64(i + 1), Hash: keyed(name, secret), Point: record.Point{ID: 1,
			BranchID: 1},
			Permissions: []string{"FACTURA_CONSUMIDOR_FINAL", "ANULACION"}})
	}
	return NewTokenTable(secret, tokens)
}
