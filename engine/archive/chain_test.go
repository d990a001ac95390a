package archive

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"dtegate/engine/archive/archivetest"
)

// Servers of both makes answer as a chain requires.
func TestChain(t *testing.T) {
	for name, endpoint := range map[string]string{"versitygw": archivetest.Start(t).Endpoint(t),
		"gofakes3": archivetest.StartOther(t).Endpoint()} {
		a, err := New(Options{Endpoint: endpoint, Bucket: archivetest.Bucket, Prefix: "cadena",
			AccessKey: archivetest.Access, Secret: archivetest.Secret, PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		b, key := a, "fleet/v1/status/centro/1.jws"
		if _, err := b.Fetch(t.Context(), key, 10); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Create(t.Context(), key, []byte("one")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Create(t.Context(), key, []byte("two")); !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Overwrite(t.Context(), key, []byte("three")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if o, err := b.Fetch(t.Context(), key, 5); err != nil || string(o.Data) != "three" || o.Modified.IsZero() ||
			o.Now.Before(o.Modified) {
			t.Errorf("%s: %+v %v", name, o, err)
		}
		if _, err := b.Fetch(t.Context(), key, 4); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		// A listing goes on after any key, whether an object has it or not.
		for _, other := range []string{"a", "ab/c", "fleet/v1/status/centro/2.jws", "z"} {
			if err := b.Create(t.Context(), other, []byte("x")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		all := []string{"a", "ab/c", key, "fleet/v1/status/centro/2.jws", "z"}
		for _, after := range append([]string{"", "0", "b", "fleet/v1/status", "zz"}, all...) {
			var got []string
			for e, err := range b.ListAfter(t.Context(), "", after) {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got = append(got, e.Key)
			}
			want := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return k <= after })
			if !slices.Equal(got, want) {
				t.Errorf("%s: after %q come %q, want %q", name, after, got, want)
			}
		}
		var listed []Object
		for e, err := range b.List(t.Context(), "fleet/v1/status/centro/1") {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			listed = append(listed, e)
		}
		if len(listed) != 1 || listed[0].Key != key || listed[0].Size != 5 || listed[0].Tag == "" ||
			listed[0].Modified.IsZero() {
			t.Errorf("%s: %+v", name, listed)
		}
	}
}

// TestChain_Refused: the error of a refusing store names it as the chain's store, not as an archive and not as a silent
// store.
func TestChain_Refused(t *testing.T) {
	for answer, want := range map[string]string{
		"403 AccessDenied": "reading fleet/v1/x: the object store does not " +
			"take this appliance: the account may not do this",
		"403 ExpiredToken":                 "the credentials have expired",
		"400 ExpiredToken":                 "the credentials have expired",
		"403 InvalidAccessKeyId":           "it does not know the access key",
		"403 SignatureDoesNotMatch":        "the secret is not the access key's",
		"400 AuthorizationHeaderMalformed": "the region is wrong",
		"301 PermanentRedirect":            "the region is wrong",
		"404 NoSuchBucket":                 "there is no bucket of this name",
		"507 XMinioStorageFull":            "reading fleet/v1/x: the object store is full",
	} {
		status, code, _ := strings.Cut(answer, " ")
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n, _ := strconv.Atoi(status)
			w.WriteHeader(n)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}))
		a, err := New(Options{Endpoint: store.URL, Bucket: archivetest.Bucket, AccessKey: "a",
			Secret: "b", PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		b := a
		_, get := b.Fetch(t.Context(), "fleet/v1/x", 10)
		if !Refuses(get) || !strings.Contains(get.Error(), want) {
			t.Errorf("%s: %v", answer, get)
		}
		errs := []error{get, b.Overwrite(t.Context(), "fleet/v1/x", []byte("x")), b.Create(t.Context(), "fleet/v1/x",
			[]byte("x"))}
		for _, err := range b.List(t.Context(), "fleet/v1/") {
			errs = append(errs, err)
		}
		for _, err := range errs {
			if !Refuses(err) || strings.Contains(err.Error(), "archive") {
				t.Errorf("%s: %v", answer, err)
			}
		}
		store.Close()
	}
}

// TestList_Endless: a store whose answer to a list has no end is no store, and the caller keeps its memory.
func TestList_Endless(t *testing.T) {
	var sent atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, `<ListBucketResult><Name>b</Name>`)
		for n := 0; err == nil && sent.Load() < 64<<20; n++ {
			var wrote int
			wrote, err = fmt.Fprintf(w, "<Contents><Key>x/%0800d</Key><Size>1</Size></Contents>", n)
			sent.Add(int64(wrote))
		}
	}))
	defer store.Close()
	a, err := New(Options{Endpoint: store.URL, Bucket: archivetest.Bucket, AccessKey: "a", Secret: "b", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range a.List(t.Context(), "x/") {
	}
	if err == nil || sent.Load() > 32<<20 {
		t.Errorf("%d MiB were read: %v", sent.Load()>>20, err)
	}
}
