package engine_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"dtegate/engine"
	"dtegate/engine/archive"
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
