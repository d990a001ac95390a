package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// A document is mailed to its receiver's address, in the document's own spelling; to another address only if the caller
// may, and that is an act of the token.
func TestResend_Elsewhere(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		var acts []Act
		b.engine.o.Acted = func(a Act) { acts = append(acts, a) }
		r := b.issue(saleTo("a", "ana@example.com"))
		nobody := b.issue(saleTo("b", ""))
		c := testCaller(1)
		c.TokenID, c.From, c.MailsOthers = 42, "192.0.2.7", false
		ctx := context.Background()
		for _, to := range []string{"eva@example.com", "ana@example.com.evil.com", "Ana@examplé.com"} {
			if _, err := b.engine.Outbox().Resend(ctx, codeOf(r), to, c); err == nil {
				t.Errorf("mailed to %s", to)
			}
		}
		_, err := b.engine.Outbox().Resend(ctx, codeOf(r), "eva@example.com", c)
		refused(t, err, refusal.CodePermission, "")
		_, err = b.engine.Outbox().Resend(ctx, codeOf(nobody), "eva@example.com", c)
		refused(t, err, refusal.CodePermission, "")
		for _, to := range []string{"", "ana@example.com", "ANA@Example.com"} {
			if resent, err := b.engine.Outbox().Resend(ctx, codeOf(r), to, c); err != nil ||
				resent.To != "ana@example.com" {
				t.Errorf("%q: %+v %v", to, resent, err)
			}
		}
		if len(acts) != 0 {
			t.Errorf("mail to the receiver is an act: %+v", acts)
		}
		c.MailsOthers = true
		p.set(func() { p.replies["gone@example.com"] = 550 })
		if _, err := b.engine.Outbox().Resend(ctx, codeOf(r), "gone@example.com", c); err != nil {
			t.Fatal(err)
		}
		if want := []Act{{TokenID: 42, From: "192.0.2.7", What: ActMail, Code: codeOf(r),
			Detail: "gone@example.com"}}; !slices.Equal(acts, want) {
			t.Errorf("acts %+v", acts)
		}
		time.Sleep(time.Second)
		if u := b.undelivered(); len(u.Failures) != 1 || u.Failures[0].Token != 42 {
			t.Errorf("what was given up does not name its token: %+v", u.Failures)
		}
	})
}

// A token that may only read what it may issue reads nothing else, in no way; the permission to invalidate includes
// reading what the token may invalidate.
func TestCaller_OwnTypes(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	issued := map[string]*record.View{}
	for _, r := range []Request{sale("a", 1130), voucher("b", item(1, "1", "5"))} {
		shown, err := w.engine.Issue(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		issued[shown.Document] = shown
	}
	back, err := w.engine.Issue(t.Context(), returnOf("c", issued["01"], dte.Obj(member("numItem", dte.Int(1)),
		member("cantidad", dte.Int(1)))))
	if err != nil {
		t.Fatal(err)
	}
	issued["18"] = back
	only := func(point int, permissions ...string) record.Caller {
		c := testCaller(point)
		c.OwnTypes, c.Permissions = true, permissions
		return c
	}
	for _, c := range []struct {
		caller record.Caller
		reads  []string
	}{
		{testCaller(1), []string{"01", "03", "18"}},
		{only(1, "FACTURA_CONSUMIDOR_FINAL"), []string{"01", "18"}}, // its own point's return
		{only(2, "FACTURA_CONSUMIDOR_FINAL"), []string{"01"}},
		{only(2, "CREDITO_FISCAL", "NOTA_CREDITO"), []string{"03"}},
		{only(2), nil},
	} {
		for document, r := range issued {
			may := slices.Contains(c.reads, document)
			_, err := w.engine.Documents().Document(t.Context(), codeOf(r), c.caller)
			if (err == nil) != may {
				t.Errorf("%v reads %s: %v", c.caller.Permissions, document, err)
			}
			if err != nil {
				refused(t, err, refusal.CodePermission, "")
			}
			if _, err := w.engine.Outbox().Archivo(t.Context(), codeOf(r), c.caller); (err == nil) != may {
				t.Errorf("%v reads the file of %s: %v", c.caller.Permissions, document, err)
			}
			infos, err := w.engine.Documents().Infos(t.Context(), []dte.Code{codeOf(r)}, c.caller)
			if err != nil || infos[0].Found != may {
				t.Errorf("%v looks %s up: %+v %v", c.caller.Permissions, document, infos, err)
			}
		}
		if list := c.caller.Readable(); c.caller.OwnTypes && slices.Contains(list, "18") {
			t.Errorf("%v lists %v", c.caller.Permissions, list)
		}
	}
	var acts []Act
	w.engine.o.Acted = func(a Act) { acts = append(acts, a) }
	caller := only(2, PermissionInvalidate)
	caller.TokenID = 9
	who := record.Person{Name: "María", DocumentType: "13", Document: "012345678"}
	other, err := w.engine.Issue(t.Context(), sale("d", 1130))
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.engine.Invalidate(t.Context(), InvalidationRequest{Code: codeOf(other), Kind: 2, Reason: "Devolución",
		Responsible: who, Applicant: who, Caller: caller})
	if err != nil || r.Invalidation.TokenID != 9 || r.TokenID != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(acts) != 1 || acts[0].TokenID != 9 || acts[0].What != ActInvalidate || acts[0].Code != codeOf(r) {
		t.Errorf("acts %+v", acts)
	}
}
