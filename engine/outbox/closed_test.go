package outbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/storage"
)

// newBox returns an outbox over the store of a world, with a mail server that refuses and an archive.
func newBox(t *testing.T, w *hookWorld) *Outbox {
	t.Helper()
	printer, err := pdf.New(pdf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := mail.New(mail.Options{Host: "mx.example", Security: mail.None, From: "dte@tienda.example"})
	if err != nil {
		t.Fatal(err)
	}
	shelf, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "documentos", AccessKey: "a", Secret: "s"})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	return New(Options{Store: w.store, Lost: record.NewLostRecords(w.store, quiet), Logger: quiet, Now: time.Now,
		Rand: rand.Reader, Delivery: Delivery{Printer: printer, Mail: sender, Archive: shelf}, Documents: Documents{
			Document: func(context.Context, dte.Code, record.Caller) (*record.View, error) {
				return &record.View{Code: dte.Code{1}.String(), Estado: record.EstadoProcessed}, nil
			},
			ChangeDelivery: func(context.Context, storage.Code, func(*record.Delivery)) error { return nil }}})
}

// TestClosed: where the store fails, each verb of the outbox fails; none finds that nothing waits.
func TestClosed(t *testing.T) {
	w := newHookWorld(t)
	box := newBox(t, w)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), record.Caller{MailsOthers: true}
	letter, err := json.Marshal(Mailing{Document: dte.Code{1}.String(), To: "ana@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	hook, check := NewHook(HookOptions{Store: w.store}), &ArchiveCheck{Store: w.store}
	_, _, _, owner := check.owner("a/" + dte.Code{1, 6: 0x40, 8: 0x80}.String() + ".json")
	done := make(chan string, 1)
	for name, err := range map[string]error{
		"count":   box.CountUndelivered(new(Undelivered)),
		"given":   second(box.GivenUp(1)),
		"retry":   second(box.Retry(ctx, dte.Code{1}, false)),
		"forget":  second(box.Forget(ctx, dte.Code{1})),
		"resend":  second(box.Resend(ctx, dte.Code{1}, "ana@example.com", c)),
		"link":    second(box.Link(ctx, dte.Code{1}, c, "letter", time.Minute)),
		"post":    box.post(ctx, Mailing{}, done),
		"away":    box.retryAway(ctx),
		"deliver": second(box.deliverDue(ctx)),
		"letter":  box.deliverEach(ctx, []storage.Entry{{State: record.LetterOpen, Head: letter}}, false),
		"clear":   box.clearGivenUp(ctx, dte.Code{1}),
		"place":   hook.findPlace(ctx),
		"keep":    hook.keepPlace(ctx, 1),
		"owner":   owner,
	} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(done) != 1 || len(box.delivery.waiting) != 0 {
		t.Errorf("a till waits for a letter that was not stored: %d answers, %v", len(done), box.delivery.waiting)
	}
	for i := range box.delivery.servers {
		box.delivery.servers[i].reset()
	}
	if _, err := box.deliverDue(ctx); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("with servers that work: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestDeliver_SetAside: a delivery that cannot go on, because it panics or its document is lost, is set aside; those
// beside it are made. A message that cannot be made is put off, and given up after five days.
func TestDeliver_SetAside(t *testing.T) {
	w := newHookWorld(t)
	defer w.store.Close()
	box := newBox(t, w)
	var mu sync.Mutex
	changed := make(map[storage.Code]*record.Step)
	box.o.Documents.View = func(e storage.Entry) (*record.View, error) {
		if e.Code[0] == 1 {
			panic("a page of no size")
		}
		return nil, errors.New("no view")
	}
	box.o.Documents.ChangeDelivery = func(_ context.Context, code storage.Code, change func(*record.Delivery)) error {
		d := record.Delivery{Mail: new(record.Step)}
		change(&d)
		mu.Lock()
		defer mu.Unlock()
		changed[code] = d.Mail
		return nil
	}
	for i, since := range map[int]time.Time{1: time.Now(), 2: time.Now(), 3: time.Now().Add(-5 * 24 * time.Hour)} {
		head, err := json.Marshal(record.Head{Document: "01", Form: record.FormNormal, Mail: "ana@example.com",
			Delivery: &record.Delivery{Mail: &record.Step{Since: since}}})
		if err == nil {
			_, err = w.store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: storage.Code{byte(i)},
				State: record.Accepted, Head: head, Parts: []storage.Part{{Name: record.FormNormal, Data: []byte("a.b.c")}},
				Due: &storage.Due{Queue: record.QueueDeliver, At: since}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, document := range []string{dte.Code{9, 6: 0x40, 8: 0x80}.String(), "no code"} {
		head, err := json.Marshal(Mailing{Document: document, To: "ana@example.com"})
		if err == nil {
			_, err = w.store.Append(t.Context(), storage.Keys{Series: "l"}, storage.Draft{State: record.LetterOpen,
				Code: storage.Code{byte(10 + i)}, Head: head, Due: &storage.Due{Queue: record.QueueDeliver, At: time.Now()}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	due, err := w.store.Due(record.QueueDeliver, time.Now(), 10)
	if err != nil || len(due) != 5 {
		t.Fatalf("%d are due: %v", len(due), err)
	}
	if err := box.deliverEach(t.Context(), due, false); err == nil {
		t.Error("a letter about no code is no error")
	}
	lost, list, err := box.o.Lost.List(10)
	if err != nil || lost != 2 {
		t.Errorf("%d are set aside: %+v %v", lost, list, err)
	}
	for _, l := range list {
		if !map[string]bool{dte.Code{1}.String(): true, dte.Code{10}.String(): true}[l.Code] {
			t.Errorf("set aside is %+v", l)
		}
	}
	if later := changed[storage.Code{2}]; !later.Pending() || later.Error != "no view" || later.Away ||
		time.Until(later.Next) < 50*time.Second {
		t.Errorf("a message that cannot be made: %+v", later)
	}
	if given := changed[storage.Code{3}]; !given.Failed() || given.Error != "given up: no view" {
		t.Errorf("after five days: %+v", given)
	}
	if n, err := box.Forget(t.Context(), dte.Code{1}); n != 1 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if lost, _, err := box.o.Lost.List(10); lost != 1 || err != nil {
		t.Errorf("%d are set aside: %v", lost, err)
	}
}
