package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/mail"
)

// The inbox beside a simulated authority: messages of the appliance's own sender are listed and readable, and the
// sender distinguishes the hostilities.
func TestInbox(t *testing.T) {
	manage, sender := startInbox(t)
	message := func(n int) mail.Message {
		return mail.Message{ID: fmt.Sprintf("%d@tienda.example", n), To: "maria@cliente.example",
			Subject: "Factura nº 1",
			Text:    "Adjunto.\n", Date: time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)}
	}
	if o := sender.Send(t.Context(), message(1)); o.Kind != mail.Sent {
		t.Fatalf("%+v", o)
	}
	for chaos, want := range map[string]struct {
		kind     mail.Kind
		code     int
		doubtful bool
	}{"refuse": {mail.Refused, 550, false}, "defer": {mail.Later, 451, false}, "drop": {mail.Later, 0, true}} {
		if got := post(t, manage+"/chaos", `{"mail":"`+chaos+`","reject":3}`, 200); got["mail"] != chaos ||
			got["reject"] != 3. {
			t.Errorf("%v", got)
		}
		if o := sender.Send(t.Context(), message(2)); o.Kind != want.kind || o.Code != want.code ||
			o.Doubtful != want.doubtful {
			t.Errorf("%s: %+v", chaos, o)
		}
	}
	post(t, manage+"/chaos", `{"mail":"drop"}`, 200)
	if got := post(t, manage+"/chaos", `{"lost_answers":1}`, 200); got["mail"] != "drop" {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{`{"mail":"refuze"}`, `{"mail":1}`, `{"mail":"refuse","rejekt":3}`, `{"mail":`, `[]`} {
		post(t, manage+"/chaos", bad, 400)
	}
	if got := get(t, manage+"/chaos", 200); !bytes.Contains(got, []byte(`"mail":"drop"`)) {
		t.Errorf("%s", got)
	}
	post(t, manage+"/chaos", `{"mail":""}`, 200)
	if o := sender.Send(t.Context(), message(3)); o.Kind != mail.Sent {
		t.Errorf("%+v", o)
	}

	var list []letter
	if err := json.Unmarshal(get(t, manage+"/mail", 200), &list); err != nil || len(list) != 2 {
		t.Fatalf("%+v %v", list, err)
	}
	l := list[1]
	if l.N != 2 || l.From != "dte@tienda.example" || strings.Join(l.To, " ") != "maria@cliente.example" ||
		l.Subject != "Factura nº 1" ||
		l.MessageID != "3@tienda.example" || l.Date != "Sat, 21 Nov 2026 08:30:00 +0000" || l.Size == 0 {
		t.Errorf("%+v", l)
	}
	if raw := get(t, manage+"/mail/2", 200); len(raw) != l.Size || !bytes.Contains(raw, []byte("<3@tienda.example>")) {
		t.Errorf("%s", raw)
	}
	get(t, manage+"/mail/3", 404)
	get(t, manage+"/mail/x", 404)
	get(t, manage+"/received", 200) // the authority's own path still works
	post(t, manage+"/reset", "", 200)
	if got := get(t, manage+"/mail", 200); string(got) != "[]\n" {
		t.Errorf("%s", got)
	}
}

func TestInbox_Keeps(t *testing.T) {
	b := &inbox{log: slog.New(slog.DiscardHandler)}
	for range keptLetters + 5 {
		b.keep("a@x.example", []string{"b@x.example"}, []byte("not a message"))
	}
	if len(b.letters) != keptLetters || b.letters[0].N != 6 || b.letters[0].Size != 13 {
		t.Errorf("%d, first %+v", len(b.letters), b.letters[0])
	}
}

// An occupied port ends the program with a message about it.
func TestInbox_PortTaken(t *testing.T) {
	taken := cmdtest.Listen(t)
	defer taken.Close()
	t.Setenv("DTESIM_SMTP_ADDR", taken.Addr().String())
	protocol, manage := cmdtest.Listen(t), cmdtest.Listen(t)
	err := serveWithInbox(t.Context(), simulator.New(simulator.Options{Now: time.Now}), http.NotFoundHandler(),
		protocol, manage, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "listening for mail (DTESIM_SMTP_ADDR)") {
		t.Error(err)
	}
}

// startInbox runs the program's servers until the test ends, and returns a sender to its inbox.
func startInbox(t *testing.T) (manage string, sender *mail.Sender) {
	t.Helper()
	address := cmdtest.Port(t)
	t.Setenv("DTESIM_SMTP_ADDR", address)
	log := slog.New(slog.DiscardHandler)
	s := simulator.New(simulator.Options{Now: time.Now, Logger: log})
	p, m := cmdtest.Listen(t), cmdtest.Listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveWithInbox(ctx, s, s.Manage(), p, m, log) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	manage = "http://" + m.Addr().String()
	get(t, manage+"/received", 200) // waits until this listener is served: by then mail has its own
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	sender, err = mail.New(mail.Options{Host: host, Port: number, Security: mail.None, From: "dte@tienda.example"})
	if err != nil {
		t.Fatal(err)
	}
	return manage, sender
}

func post(t *testing.T, url, body string, status int) map[string]any {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	if resp.StatusCode != status {
		t.Errorf("%s: %d %v", body, resp.StatusCode, answer)
	}
	return answer
}

func get(t *testing.T, url string, status int) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Errorf("%s: %d %s %v", url, resp.StatusCode, body, err)
	}
	return body
}
