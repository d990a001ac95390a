package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"dtegate/cmd/cmdtest/skip"
)

var testKey = sync.OnceValue(func() *Key {
	k, err := Generate(2048)
	if err != nil {
		panic(err)
	}
	return k
})

func TestSign_IndependentVerifier(t *testing.T) {
	payload := []byte(`{"nombre":"José Ñandú","total":113.00}`)
	text, err := New(testKey()).Right([16]byte{1}, "normal").Sign(context.Background(), payload)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), ".")
	if header, _ := base64.RawURLEncoding.DecodeString(parts[0]); string(header) != `{"alg":"RS512"}` {
		t.Errorf("header is %s", header)
	}
	if body, _ := base64.RawURLEncoding.DecodeString(parts[1]); !bytes.Equal(body, payload) {
		t.Errorf("payload is %s", body)
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	if err := jwt.SigningMethodRS512.Verify(parts[0]+"."+parts[1], signature, testKey().Public()); err != nil {
		t.Errorf("golang-jwt: %v", err)
	}
}

func TestRight_OnlyOnce(t *testing.T) {
	r := New(testKey()).Right([16]byte{1}, "normal")
	var mu sync.Mutex
	signed, spent := 0, 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := r.Sign(context.Background(), []byte("{}"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				signed++
			} else if errors.Is(err, ErrSpent) {
				spent++
			}
		})
	}
	wg.Wait()
	if signed != 1 || spent != 19 {
		t.Fatalf("signed %d times, refused %d times", signed, spent)
	}
}

func TestSeal(t *testing.T) {
	until := time.Unix(1_900_000_000, 0).UTC()
	key := &Key{private: testKey().private, until: until}
	sealed, err := seal(key, []byte("correct horse battery"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(sealed, []byte("correct horse battery"))
	if err != nil || !k.private.Equal(testKey().private) || !k.NotAfter().Equal(until) {
		t.Fatalf("opened %v until %v, %v", k, k.NotAfter(), err)
	}
	if _, err := Open(sealed, []byte("correct horse batterz")); !errors.Is(err, ErrPassword) {
		t.Errorf("wrong passphrase: %v", err)
	}
	sealed[len(sealed)/2] ^= 1
	if _, err := Open(sealed, []byte("correct horse battery")); err == nil {
		t.Error("an altered file opened")
	}
	if _, err := Seal(testKey(), []byte("short")); err == nil {
		t.Error("sealed under a short passphrase")
	}
}

func TestCertificate_RoundTrip(t *testing.T) {
	from, until := time.Unix(1_700_000_000, 0).UTC(), time.Unix(1_900_000_000, 0).UTC()
	b, err := DemoCertificate(testKey(), "06140101901019", "clave", from, until)
	if err != nil {
		t.Fatal(err)
	}
	k, c, err := ParseCertificate(b, "clave")
	if err != nil || !k.private.Equal(testKey().private) {
		t.Fatal(err)
	}
	if c != (Certificate{NIT: "06140101901019", NotBefore: from, NotAfter: until, Active: true}) {
		t.Errorf("got %+v", c)
	}
	if _, _, err := ParseCertificate(b, "Clave"); !errors.Is(err, ErrPassword) {
		t.Errorf("wrong password: %v", err)
	}
	for name, bad := range map[string]string{"html": "<html></html>", "empty": "",
		"no key": "<CertificadoMH><nit>1</nit></CertificadoMH>"} {
		if _, _, err := ParseCertificate([]byte(bad), "clave"); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The synthetic certificate and signature in MH's layout, made by other programs, when they lie beside the checkout.
func TestCertificate_Oracle(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "mh", "examples", "_signing")
	b, err := os.ReadFile(filepath.Join(folder, "06140101901019.crt"))
	if err != nil {
		skip.Test(t, skip.MHDocuments)
	}
	k, c, err := ParseCertificate(b, "PruebaLocal2026")
	if err != nil || c.NIT != "06140101901019" || c.NotAfter.IsZero() {
		t.Fatalf("%+v, %v", c, err)
	}
	payload, _ := os.ReadFile(filepath.Join(folder, "payload_pretty.json"))
	want, _ := os.ReadFile(filepath.Join(folder, "jws_pretty.txt"))
	got, err := New(k).Right([16]byte{}, "normal").Sign(context.Background(), payload)
	if err != nil || string(got) != strings.TrimSpace(string(want)) {
		t.Fatalf("the signature is not byte for byte that of MH's signer: %v", err)
	}
}

func TestKey_NeverPrints(t *testing.T) {
	k := testKey()
	secret := k.private.D.String()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "inside", struct{ K *Key }{k})
	j, _ := json.Marshal(map[string]any{"k": k})
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %s %d %x", k, k, k, k, k), fmt.Sprintf("%+v",
		struct{ K *Key }{k}), log.String(), string(j)} {
		if strings.Contains(s, secret) || strings.Contains(s, secret[:40]) || !strings.Contains(s, "[signing key]") {
			t.Errorf("printed %.80s", s)
		}
	}
}

func FuzzParseCertificate(f *testing.F) {
	b, _ := DemoCertificate(testKey(), "1", "clave", time.Time{}, time.Time{})
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(bytes.Replace(b, []byte("<nit>1</nit>"), []byte("<nit/><nit>1</nit><!-- -->"), 1))
	f.Add([]byte(`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e "e">]><CertificadoMH><nit>&e;</nit></CertificadoMH>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, c, err := ParseCertificate(b, "clave")
		if (k == nil) != (err != nil) || (err != nil && c != Certificate{}) || (err == nil &&
			strings.TrimSpace(c.NIT) == "") {
			t.Fatalf("key %v, certificate %+v, error %v", k, c, err)
		}
	})
}

// BenchmarkSign measures the whole signature against the bare one inside it.
func BenchmarkSign(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 6000)
	b.Run("right", func(b *testing.B) {
		s := New(testKey())
		for b.Loop() {
			_, _ = s.Right([16]byte{}, "normal").Sign(context.Background(), payload)
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			sum := sha512.Sum512(payload)
			_, _ = rsa.SignPKCS1v15(nil, testKey().private, crypto.SHA512, sum[:])
		}
	})
}
