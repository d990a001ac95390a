package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/engine/archive"
	"dtegate/storage"
)

// TestPartsOf: the archive is asked once for each document, and no more once it has failed three times in a row. A
// document in cold storage is no such failure. Its first error and each failure are returned.
func TestPartsOf(t *testing.T) {
	asked := ""
	part := partsOf(func(_ context.Context, e storage.Entry) ([]byte, error) {
		asked += string(e.Code[:1])
		switch e.Code[0] {
		case 'c', 'd', 'e', 'f':
			return nil, errors.New("no answer")
		case '1', '2':
			return nil, fmt.Errorf("reading %c: %w", e.Code[0], archive.ErrCold)
		}
		return e.Code[:1], nil
	})
	for _, c := range []struct {
		code, want string
		fails      bool
	}{{"a", "a", false}, {"a", "a", false}, {"b", "b", false}, {"a", "a", false}, {"1", "", true},
		{"1", "", false}, {"2", "", false}, {"a", "a", false},
		{"c", "", true}, {"c", "", false}, {"a", "a", false}, {"d", "", true}, {"e", "", true}, {"2", "", false},
		{"f", "", true}, {"a", "", false}} {
		got, err := part(t.Context(), storage.Entry{Code: storage.Code{c.code[0]}}, "normal")
		if string(got) != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", c.code, got, err)
		}
	}
	if asked != "aba12acade2f" {
		t.Errorf("asked for %s", asked)
	}
}

// TestClockAccept: the accepted time is the store's last time, whether that was ahead or behind. Since when the archive
// must be asked stays: since the earliest doubt or, without a doubt, since the last time.
func TestClockAccept(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	last, doubt := now.AddDate(2, 0, 0), now.AddDate(0, -2, 0)
	for _, c := range []struct{ last, unsure, want time.Time }{{last, time.Time{}, last}, {doubt, time.Time{}, doubt},
		{last, doubt, doubt}} {
		b := barebox.New(t, "127.0.0.1:1")
		s := b.Store()
		b.Must(s.Beat(c.last, c.unsure), s.Close())
		output(b, func() error { return new(ClockAccept).Run(b.Config) })
		s = b.Store()
		at, unsure, err := s.LastBeat()
		if b.Must(err, s.Close()); at.Before(now) || at.After(now.Add(time.Hour)) || !unsure.Equal(c.want) {
			t.Errorf("%v, unsure since %v: is %v, unsure since %v", c.last, c.unsure, at, unsure)
		}
	}
}

// TestAskAuthority: MH is asked for each document whose code is known, of its type, at most a hundred, and no more once
// it does not answer.
func TestAskAuthority(t *testing.T) {
	asked := 0
	mh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/auth") {
			_, _ = io.WriteString(w, `{"status":"OK","body":{"token":"Bearer x","roles":["ROLE_USER"]}}`)
			return
		}
		var q struct{ Tdte, CodigoGeneracion string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Tdte != "03" {
			t.Errorf("%+v, %v", q, err)
		}
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"estado":"RECHAZADO","codigoGeneracion":%q,"codigoMsg":"017"}`, q.CodigoGeneracion)
			return
		}
		_, _ = fmt.Fprintf(w, `{"estado":"PROCESADO","codigoGeneracion":%q,"selloRecibido":"2026%036d"}`, q.CodigoGeneracion,
			asked)
	}))
	defer mh.Close()
	b := barebox.New(t, strings.TrimPrefix(mh.URL, "http://"))
	list := []storage.Affected{{Series: "00/03/M001/P001/2026", From: 3, To: 3},
		{Code: storage.Code{1}, Series: "00/auditoria"}}
	for i := range 102 {
		list = append(list, storage.Affected{Code: storage.Code{1, byte(i), 6: 0x40, 8: 0x80},
			Series: "00/03/M001/P001/2026", From: uint64(i + 7), To: uint64(i + 7)})
	}
	ask := func() []string {
		said, _ := barebox.Output(t, func() error { askAuthority(t.Context(), b.Config, list); return nil })
		return strings.Split(strings.TrimSpace(said), "\n")
	}
	lines := ask()
	if len(lines) != 100 || asked != 100 || lines[0] != fmt.Sprintf("MH holds 00/03/M001/P001/2026  8  "+
		"01010000-0000-4000-8000-000000000000, seal 2026%036d", 2) || lines[99] != "MH was asked for 100 documents only: "+
		"that is the limit" {
		t.Errorf("%d times: %q", asked, lines)
	}
	mh.Close()
	if lines := ask(); len(lines) != 1 || !strings.HasPrefix(lines[0], "MH does not answer: ") {
		t.Errorf("%q", lines)
	}
	b.Must(os.Remove(b.At("authority.password")))
	if lines := ask(); len(lines) != 1 || !strings.HasPrefix(lines[0], "MH was not asked: authority.password_file") {
		t.Errorf("%q", lines)
	}
}
