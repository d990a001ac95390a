package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"log/slog"
	"math/big"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/engine/sign"
)

// A key that cannot sign prevents a start. The error has the reason, and nothing of the key.
func TestStart_BrokenKey(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	broken, err := sign.ParsePEM(brokenKey(t))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := sign.Seal(broken, []byte(testPassphrase))
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(b.sealed)
	altered[len(altered)/2] ^= 1
	for name, c := range map[string]struct {
		key        []byte
		passphrase string
		want       string
	}{
		"signs wrongly":      {sealed, testPassphrase, "testing signing key: making a test signature"},
		"another passphrase": {b.sealed, "passphrase of another box", "opening signing key: "},
		"altered":            {altered, testPassphrase, "opening signing key: "},
		"no sealed key":      {[]byte("MIIE"), testPassphrase, "opening signing key: not a sealed key"},
	} {
		t.Run(name, func(t *testing.T) {
			b.write("signing.jwe", c.key)
			b.write("signing.passphrase", []byte(c.passphrase))
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // a start that succeeds ends at once
			err := run(ctx, filepath.Join(b.dir, "dted.toml"), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v", err)
			}
			seek("the refusal of a key that is "+name, []byte(err.Error()))
		})
	}
}

// brokenKey is a PKCS#8 whose numbers agree with each other, so that it can be read; but one of its two factors is not
// a prime, and its signatures do not verify.
func brokenKey(t *testing.T) []byte {
	t.Helper()
	prime := func(bits int) *big.Int {
		p, err := rand.Prime(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, e := big.NewInt(1), big.NewInt(65537)
	for {
		p, q := new(big.Int).Mul(prime(512), prime(512)), prime(1024)
		n, p1, q1 := new(big.Int).Mul(p, q), new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
		d := new(big.Int).ModInverse(e, new(big.Int).Mul(p1, q1))
		if d == nil || n.BitLen() != 2048 {
			continue
		}
		good, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(good)
		if err != nil {
			t.Fatal(err)
		}
		var info struct { // RFC 5958 §2
			Version   int
			Algorithm asn1.RawValue
			Key       []byte
		}
		if _, err := asn1.Unmarshal(der, &info); err != nil {
			t.Fatal(err)
		}
		if info.Key, err = asn1.Marshal(struct { // RFC 8017 A.1.2
			Version                     int
			N, E, D, P, Q, Dp, Dq, QInv *big.Int
		}{0, n, e, d, p, q, new(big.Int).Mod(d, p1), new(big.Int).Mod(d, q1), new(big.Int).ModInverse(q,
			p)}); err != nil {
			t.Fatal(err)
		}
		if der, err = asn1.Marshal(info); err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
}
