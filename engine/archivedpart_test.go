package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/archive"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// answers answers each request with a status and a body.
type answers struct {
	status int
	body   string
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Last-Modified": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Etag": {`"1"`}},
		Body:   io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body))}, nil
}

// TestArchivedPart: an object that is no document is none, and does not count as an archive that cannot be read.
func TestArchivedPart(t *testing.T) {
	head, err := json.Marshal(&record.Head{Document: "01", Ambiente: "00", Date: "2026-11-23"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answers
		want  string
		error error
	}{
		"a document": {answers{http.StatusOK, `{"firmaElectronica":"a.b.c"}`}, "a.b.c", nil},
		"no object":  {answers{http.StatusNotFound, ""}, "", nil},
		"cut off":    {answers{http.StatusOK, `{"firmaElectro`}, "", nil},
		"unsigned":   {answers{http.StatusOK, `{}`}, "", nil},
		"too large":  {answers{http.StatusOK, strings.Repeat(" ", archive.MaxDocument+1)}, "", nil},
		"in cold storage": {answers{http.StatusForbidden, `<Error><Code>InvalidObjectState</Code></Error>`}, "",
			archive.ErrCold},
		"denied": {answers{http.StatusForbidden, `<Error><Code>AccessDenied</Code></Error>`}, "", archive.ErrSetup},
	} {
		a, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "documentos", AccessKey: "a",
			Secret: "s", PathStyle: true, Transport: c.answers})
		if err != nil {
			t.Fatal(err)
		}
		got, err := engine.ArchivedPart(t.Context(), a, "tienda", storage.Entry{Head: head})
		if string(got) != c.want || !errors.Is(err, c.error) || (err == nil) != (c.error == nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestFormOfLostTime: MH sealed a document in a time that the store has lost. The form in the archive is the record, also
// if the store lacks it; what is not that document, with that seal and the box's signature, decides nothing.
func TestFormOfLostTime(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, _ *enginetest.PostOffice) {
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		other := b.Issue(enginetest.SaleTo("b", ""))
		time.Sleep(time.Minute)
		entry, h, err := record.Read(b.Store, storage.Code(enginetest.CodeOf(r)))
		if err != nil {
			t.Fatal(err)
		}
		was := *h
		h.Form, h.Total, h.Mail, h.Receiver = record.FormContingency, "9.99", "", record.Receiver{} // of an earlier form
		whole := string(shelf.Get(r.JSONURL))
		likeliest := []storage.Part{{Name: record.FormContingency, Data: []byte("e.f.g")}}
		held := append(likeliest, storage.Part{Name: record.FormNormal, Data: r.JWS})
		for name, c := range map[string]struct {
			archive string
			forms   []storage.Part
			form    string
		}{
			"a form that the store lacks": {whole, likeliest, record.FormArchived},
			"a form that the store has":   {whole, held, record.FormNormal},
			"another seal":                {strings.ReplaceAll(whole, r.Sello, other.Sello), held, ""},
			"another document":            {string(shelf.Get(other.JSONURL)), held, ""},
			"another's signature":         {strings.ReplaceAll(whole, string(r.JWS), string(r.JWS)[:len(r.JWS)-9]+"AAAAAAAAA"), held, ""},
			"nothing":                     {"", held, ""},
		} {
			shelf.Put(r.JSONURL, c.archive, "x")
			proof, got, parts, err := b.Engine.FormOfLostTime(context.Background(), entry, *h, c.forms, b.Now())
			switch archived := c.form == record.FormArchived; {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case c.form == "" && (proof != "likeliest" || got.Form != h.Form || got.Total != h.Total || len(parts) != 0),
				c.form != "" && (proof != "archive" || got.Form != c.form || len(got.Warnings) != len(h.Warnings)),
				archived != (len(parts) == 1 && parts[0].Name == c.form && string(parts[0].Data) == string(r.JWS)),
				archived && (got.Total != r.Total || got.Mail != "ana@example.com" || !reflect.DeepEqual(got.Receiver, was.Receiver)):
				t.Errorf("%s: %s, %+v, %d parts", name, proof, got, len(parts))
			}
		}
	})
}
