package archive

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Temporary keys come from a service on this machine, which answers like EC2's instance metadata.
func TestCredentials(t *testing.T) {
	s := start(t)
	asked, given := 0, secret
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const list = "/latest/meta-data/iam/security-credentials/"
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			fmt.Fprint(w, "session")
		case r.Header.Get("X-aws-ec2-metadata-token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == list:
			fmt.Fprint(w, "caja")
		case r.URL.Path == list+"caja":
			asked++
			fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":%q,"Expiration":%q}`, access, given,
				time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer service.Close()
	set := func(o *Options) { o.AccessKey, o.Secret, o.Credentials = "", "", service.URL }
	a := s.archive(t, set)
	if asked != 0 {
		t.Error("New asked")
	}
	for n := range 3 {
		if err := a.Create(t.Context(), fmt.Sprintf("x/%d", n), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	given = "otra"
	if err := s.archive(t, set).Create(t.Context(), "x/4", []byte("x")); !errors.Is(err, ErrSetup) {
		t.Error(err)
	}
	service.Close() // it may come back: nothing to set up
	if err := s.archive(t, set).Create(t.Context(), "x/5", []byte("x")); err == nil || kind(err) != "" {
		t.Error(err)
	}
	for _, bad := range []string{"http://169.254.169.254", "https://127.0.0.1:9911", "127.0.0.1:9911",
		"http://127.0.0.1:9911/x", "http://localhost.example:1"} {
		o := Options{Endpoint: "https://s3.example", Bucket: bucket, Credentials: bad}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "Credentials") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := New(Options{Endpoint: "https://s3.example", Bucket: bucket, Credentials: "http://127.0.0.1:9911",
		AccessKey: "x"}); err == nil {
		t.Error("both are taken")
	}
}
