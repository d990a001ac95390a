package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/audit"
)

// asToken asks the tills' listener for the token's name.
func (b *branch) asToken(token string) int {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+b.api+"/dte/information", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("x-api-token", token)
	status, _, err := do(client, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return status
}

// tokenAct asks the admin API for a change of tokens.
func (b *branch) tokenAct(method, path, body string, want int) (made struct {
	ID    int64  `json:"id"`
	Token string `json:"token"`
}) {
	b.t.Helper()
	status, answer := b.admin(method, path, []byte(body))
	if status != want || json.Unmarshal(answer, &made) != nil {
		b.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return made
}

// acts are the newest acts of the trail, the newest first.
func (b *branch) acts() []audit.Act {
	b.t.Helper()
	var list struct{ Acts []audit.Act }
	status, answer := b.admin(http.MethodGet, "/admin/audit?limit=1000", nil)
	if status != http.StatusOK || json.Unmarshal(answer, &list) != nil {
		b.t.Fatalf("%d %s", status, answer)
	}
	return list.Acts
}

// soon waits for something that a running appliance does by itself within a second or two.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); !is(); pause(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 40 s: %s", what)
		}
	}
}

// Tokens made, rotated and revoked, by the admin API and in the file, are live without a restart; each change is in the
// trail once, even a change made while the appliance was stopped.
func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	made := b.tokenAct("POST", "/admin/tokens?who=ana@office",
		`{"name":"caja 9","point_of_sale":2,"permissions":["FACTURA_CONSUMIDOR_FINAL"]}`, 201)
	if b.asToken(made.Token) != 200 {
		t.Error("a new token does not open")
	}
	path := fmt.Sprintf("/admin/tokens/%d", made.ID)
	rotated := b.tokenAct("POST", path+"/rotate", `{"grace":"1h"}`, 200)
	if b.asToken(made.Token) != 200 || b.asToken(rotated.Token) != 200 {
		t.Error("within the grace the old and the new token open")
	}
	again := b.tokenAct("POST", path+"/rotate", "", 200)
	if b.asToken(made.Token) != 401 || b.asToken(rotated.Token) != 401 || b.asToken(again.Token) != 200 {
		t.Error("rotated without a grace: only the new token opens")
	}
	b.tokenAct("DELETE", path, "", 200)
	if b.asToken(again.Token) != 401 {
		t.Error("a revoked token opens")
	}
	b.tokenAct("DELETE", path, "", 404)
	for _, wrong := range []string{`{"name":"x","point_of_sale":77,"permissions":["FACTURA_CONSUMIDOR_FINAL"]}`,
		`{"name":"x","point_of_sale":2,"permissions":"FACTURA_CONSUMIDOR_FINAL"}`,
		`{"name":"x","point_of_sale":2,"permissions":["FACTURA_CONSUMIDOR_FINAL"]`,
		`{"point_of_sale":2,"permissions":["FACTURA_CONSUMIDOR_FINAL"],"name":7}`} {
		b.tokenAct("POST", "/admin/tokens", wrong, 400)
	}
	status, list := b.admin("GET", "/admin/tokens", nil)
	if status != 200 || strings.Count(string(list), `"id"`) != 9 || strings.Contains(string(list), "hash") ||
		strings.Contains(string(list), made.Token) {
		t.Errorf("%d %s", status, list)
	}

	// The file, as dtectl changes it.
	file := filepath.Join(b.dir, "tokens.toml")
	cfg, err := config.Load(filepath.Join(b.dir, "dted.toml"))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(*config.TokenFile) error) {
		t.Helper()
		if err := config.EditTokens(file, change); err != nil {
			t.Fatal(err)
		}
	}
	var secret string
	edit(func(f *config.TokenFile) (err error) {
		_, secret, err = f.Add(cfg, "caja 10", 1, config.Permissions, "eva@box", time.Now())
		return err
	})
	soon(t, "a token of the file opens", func() bool { return b.asToken(secret) == 200 })
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b.write("tokens.toml", []byte("secret = 1"))
	soon(t, "the metric shows a broken file", func() bool { return b.metric("dte_token_file_broken") == 1 })
	if b.asToken(secret) != 200 || b.asToken(testToken+"1") != 200 {
		t.Error("a broken file closed out good tokens")
	}
	b.write("tokens.toml", good)
	soon(t, "the metric shows a whole file", func() bool { return b.metric("dte_token_file_broken") == 0 })
	b.stop()
	edit(func(f *config.TokenFile) error { _, err := f.Revoke(11, "leo@box", time.Now()); return err })
	b.start()
	defer b.stop()
	if b.asToken(testToken+"1") != 401 || b.asToken(testToken+"2") != 200 {
		t.Error("revoked while stopped")
	}
	var lines []string
	for _, a := range b.acts() {
		if a.At.IsZero() || a.State != nil {
			t.Errorf("%+v", a)
		}
		lines = append(lines, strings.Join([]string{a.What, a.Target, a.Who, a.Outcome}, " "))
	}
	slices.Reverse(lines)
	want := []string{"token.found  the installation done", "token.new 19 ana@office done", "token.rotate 19 admin done",
		"token.rotate 19 admin done",
		"token.revoke 19 admin done", "token.revoke 19 admin refused", "token.new  admin refused",
		"token.new 20 eva@box done", "token.revoke 11 leo@box done"}
	if !slices.Equal(lines, want) {
		t.Errorf("the trail is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// Operators' acts are recorded before they are answered, and survive a power cut; so are refused requests.
func TestAudit(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/admin/contingency?who=ana", `{"cause":2,"reason":"se apagó el servidor"}`, 200},
		{"DELETE", "/admin/contingency?who=ana%0a%1b[2J", "", 200},
		{"POST", "/admin/contingency", `{"cause":9,"reason":"x"}`, 400},
		{"POST", "/admin/rules?who=ana&reason=new+rates", "no bundle", 422},
		{"POST", "/admin/rules/rollback?reason=test", `{"name":"dte01","schema":2,"version":"9.9.9"}`, 409},
		{"GET", "/admin/rules", "", 200},
	} {
		if status, answer := b.admin(c.method, c.path, []byte(c.body)); status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, answer)
		}
	}
	b.kill()
	b.start()
	acts := b.acts()
	slices.Reverse(acts)
	var lines []string
	for i, a := range acts {
		if a.Number != uint64(i+1) || a.From == "" || a.At.IsZero() || (a.Outcome == audit.Refused) != (a.Error != "" ||
			strings.Contains(a.Detail, "new rates")) {
			t.Errorf("%+v", a)
		}
		lines = append(lines, strings.TrimSpace(a.What+" "+a.Target)+" "+a.Who+" "+a.Outcome)
	}
	want := []string{"token.found the installation done", "contingency.declare cause 2 ana done",
		"contingency.lift ana[2J done", "contingency.declare cause 9 admin refused",
		"rules.push ana refused", "rules.rollback dte01 9.9.9 admin refused"}
	if !slices.Equal(lines, want) {
		t.Errorf("the trail is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	running, ok := b.dtectl("audit")
	if !ok || !strings.Contains(running, "se apagó el servidor") {
		t.Errorf("dtectl audit: %s", running)
	}
	b.stop()
	if stopped, ok := b.dtectl("audit"); !ok || stopped != running {
		t.Errorf("dtectl audit of a stopped appliance: %s\nwas %s", stopped, running)
	}
	if said, ok := b.dtectl("fsck"); !ok || !strings.Contains(said, "00/auditoria") {
		t.Errorf("fsck: %s", said)
	}
}
