package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestActs: a till's acts name its token in the record, in the trail and in the log; a token that may not mail
// elsewhere does not; failed admin logins are counted and in the trail.
func TestActs(t *testing.T) {
	t.Parallel()
	o := newBranch(t, "invalidacion/v3").operated()
	o.withInbox()
	o.start()
	r := o.sold(sale01) // by token 11
	mails := func(point int, body string, want int) {
		t.Helper()
		status, answer, err := o.post("/dte/resend/"+r.Code, point, "", body)
		if err != nil || status != want || want == http.StatusForbidden && !strings.Contains(string(answer),
			`"type":"PERMISSION_DENIED"`) {
			t.Errorf("%s: %d %v %s", body, status, err, answer)
		}
	}
	mails(2, `{"email":"eva@example.com"}`, http.StatusForbidden)
	mails(2, `{"email":"ana@example.com"}`, http.StatusOK)
	mails(2, ``, http.StatusOK)
	made := o.tokenAct(http.MethodPost, "/admin/tokens?who=test",
		`{"name":"correo","point_of_sale":2,"permissions":["REENVIO"]}`, http.StatusCreated)
	req, err := http.NewRequest(http.MethodPost, "http://"+o.api+"/dte/resend/"+r.Code,
		strings.NewReader(`{"email":"eva@example.com"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-api-token", made.Token)
	if status, answer, err := do(client, req); err != nil || status != http.StatusOK {
		t.Errorf("with REENVIO: %d %v %s", status, err, answer)
	}
	status, answer, err := o.post("/dte/invalidacion/"+r.Code, 3, "",
		`{"tipoAnulacion":2,"motivo":"Devolución","responsable":{"nombre":"María","tipoDocumento":"13","numDocumento":"012345678"},"solicita":{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678"}}`)
	if err != nil || status != http.StatusOK || !strings.Contains(string(answer), `"tokenId":13`) ||
		!strings.Contains(string(answer), `"tokenId":11`) {
		t.Errorf("invalidated: %d %v %s", status, err, answer)
	}
	for range 5 {
		req, err := http.NewRequest(http.MethodGet, "http://"+o.ops+"/admin/rules", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer not the admin token")
		if status, _, err := do(http.DefaultClient, req); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%d %v", status, err)
		}
	}
	if n := o.metric("dte_admin_login_failures_total"); n != 5 {
		t.Errorf("%v failed logins are counted", n)
	}
	soon(t, "the trail has the failed logins", func() bool { return strings.Contains(o.does("audit"), "admin.login") })
	o.stop()
	said := o.does("audit", "token 13", "document.invalidate "+r.Code, "document.mail "+r.Code, "eva@example.com")
	if n := strings.Count(said, "admin.login"); n > 2 {
		t.Errorf("%d acts of failed logins:\n%s", n, said)
	}
	log := o.log.String()
	for _, line := range []string{"token=11 point_of_sale=1 route=/dte/dte01 code=" + r.Code + " status=201",
		"token=12 point_of_sale=2 route=/dte/resend code=" + r.Code + " status=403",
		"token=13 point_of_sale=3 route=/dte/invalidacion code=" + r.Code + " status=200",
		`msg="no token" listener=ops given=true`} {
		if !strings.Contains(log, line) {
			t.Errorf("no %s in the log:\n%s", line, log)
		}
	}
}
