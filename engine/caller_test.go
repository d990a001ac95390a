package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// A document is mailed to its receiver's address, in the document's own spelling; to another address only if the caller
// may, and that is an act of the token.
func TestResend_Elsewhere(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		var acts []engine.Act
		b.Engine.Opts().Acted = func(a engine.Act) { acts = append(acts, a) }
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		nobody := b.Issue(enginetest.SaleTo("b", ""))
		c := enginetest.TestCaller(1)
		c.TokenID, c.From, c.MailsOthers = 42, "192.0.2.7", false
		ctx := context.Background()
		for _, to := range []string{"eva@example.com", "ana@example.com.evil.com", "Ana@examplé.com"} {
			if _, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), to, c); err == nil {
				t.Errorf("mailed to %s", to)
			}
		}
		_, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "eva@example.com", c)
		enginetest.Refused(t, err, refusal.CodePermission, "")
		_, err = b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(nobody), "eva@example.com", c)
		enginetest.Refused(t, err, refusal.CodePermission, "")
		for _, to := range []string{"", "ana@example.com", "ANA@Example.com"} {
			if resent, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), to, c); err != nil ||
				resent.To != "ana@example.com" {
				t.Errorf("%q: %+v %v", to, resent, err)
			}
		}
		if len(acts) != 0 {
			t.Errorf("mail to the receiver is an act: %+v", acts)
		}
		c.MailsOthers = true
		p.Set(func() { p.Replies["gone@example.com"] = 550 })
		if _, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "gone@example.com", c); err != nil {
			t.Fatal(err)
		}
		if want := []engine.Act{{TokenID: 42, From: "192.0.2.7", What: engine.ActMail, Code: enginetest.CodeOf(r),
			Detail: "gone@example.com"}}; !slices.Equal(acts, want) {
			t.Errorf("acts %+v", acts)
		}
		time.Sleep(time.Second)
		if u := b.Undelivered(); len(u.Failures) != 1 || u.Failures[0].Token != 42 {
			t.Errorf("what was given up does not name its token: %+v", u.Failures)
		}
	})
}

// A token that may only read what it may issue reads nothing else, in no way; the permission to invalidate includes
// reading what the token may invalidate.
func TestCaller_OwnTypes(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	issued := map[string]*record.View{}
	for _, r := range []engine.Request{enginetest.Sale("a", 1130), enginetest.Voucher("b", enginetest.Item(1, "1", "5"))} {
		shown, err := w.Engine.Issue(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		issued[shown.Document] = shown
	}
	back, err := w.Engine.Issue(
		t.Context(),
		enginetest.ReturnOf("c", issued["01"], dte.Obj(enginetest.Member("numItem", dte.Int(1)),
			enginetest.Member("cantidad", dte.Int(1)))),
	)
	if err != nil {
		t.Fatal(err)
	}
	issued["18"] = back
	for _, r := range issued { // announce each document, as if its result had come late
		if _, err := w.Store.Advance(t.Context(), storage.Code(enginetest.CodeOf(r)), record.Accepted,
			storage.Change{To: record.Accepted, Announce: true}); err != nil {
			t.Fatal(err)
		}
	}
	now, stop := context.WithCancel(t.Context())
	stop() // a till that does not wait
	only := func(point int, permissions ...string) record.Caller {
		c := enginetest.TestCaller(point)
		c.OwnTypes, c.Permissions = true, permissions
		return c
	}
	for _, c := range []struct {
		caller record.Caller
		reads  []string
	}{
		{enginetest.TestCaller(1), []string{"01", "03", "18"}},
		{only(1, "FACTURA_CONSUMIDOR_FINAL"), []string{"01", "18"}}, // its own point's return
		{only(2, "FACTURA_CONSUMIDOR_FINAL"), []string{"01"}},
		{only(2, "CREDITO_FISCAL", "NOTA_CREDITO"), []string{"03"}},
		{only(2), nil},
	} {
		late, _, err := w.Engine.Documents().Changes(now, 0, c.caller)
		var heard []string
		for _, l := range late {
			i := slices.IndexFunc(record.Known(), func(k *bundle.Type) bool { return k.Name == l.Tipo })
			heard = append(heard, record.Known()[i].Document)
		}
		if slices.Sort(heard); err != nil || !slices.Equal(heard, c.reads) {
			t.Errorf("%v hears of %v: %v", c.caller.Permissions, heard, err)
		}
		for document, r := range issued {
			may := slices.Contains(c.reads, document)
			_, err := w.Engine.Documents().Document(t.Context(), enginetest.CodeOf(r), c.caller)
			if (err == nil) != may {
				t.Errorf("%v reads %s: %v", c.caller.Permissions, document, err)
			}
			if err != nil {
				enginetest.Refused(t, err, refusal.CodePermission, "")
			}
			if _, err := w.Engine.Outbox().Archivo(t.Context(), enginetest.CodeOf(r), c.caller); (err == nil) != may {
				t.Errorf("%v reads the file of %s: %v", c.caller.Permissions, document, err)
			}
			infos, err := w.Engine.Documents().Infos(t.Context(), []dte.Code{enginetest.CodeOf(r)}, c.caller)
			if err != nil || infos[0].Found != may {
				t.Errorf("%v looks %s up: %+v %v", c.caller.Permissions, document, infos, err)
			}
		}
		if list := c.caller.Readable(); c.caller.OwnTypes && slices.Contains(list, "18") {
			t.Errorf("%v lists %v", c.caller.Permissions, list)
		}
	}
	var acts []engine.Act
	w.Engine.Opts().Acted = func(a engine.Act) { acts = append(acts, a) }
	caller := only(2, engine.PermissionInvalidate)
	caller.TokenID = 9
	who := record.Person{Name: "María", DocumentType: "13", Document: "012345678"}
	other, err := w.Engine.Issue(t.Context(), enginetest.Sale("d", 1130))
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Engine.Invalidate(
		t.Context(),
		engine.InvalidationRequest{Code: enginetest.CodeOf(other), Kind: 2, Reason: "Devolución",
			Responsible: who, Applicant: who, Caller: caller},
	)
	if err != nil || r.Invalidation.TokenID != 9 || r.TokenID != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(acts) != 1 || acts[0].TokenID != 9 || acts[0].What != engine.ActInvalidate ||
		acts[0].Code != enginetest.CodeOf(r) {
		t.Errorf("acts %+v", acts)
	}
}
