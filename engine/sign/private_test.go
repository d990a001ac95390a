package sign

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
)

func TestSealPrivate(t *testing.T) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	passphrase := []byte("correct horse battery")
	sealed, err := sealPrivate(k, passphrase, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := OpenPrivate(sealed, passphrase); err != nil || !got.Equal(k) {
		t.Error(err)
	}
	if _, err := OpenPrivate(sealed, []byte("another one, wrong")); !errors.Is(err, ErrPassword) {
		t.Error(err)
	}
	altered := []byte(strings.Replace(string(sealed), ".", ".A", 2))
	if _, err := OpenPrivate(altered, passphrase); err == nil {
		t.Error("an altered file opens")
	}
	if _, err := OpenPrivate([]byte("-----BEGIN PRIVATE KEY-----"), passphrase); !errors.Is(err, ErrSealed) {
		t.Error(err)
	}
	for _, short := range []string{"", "eleven byte"} {
		if _, err := sealPrivate(k, []byte(short), 1000); err == nil {
			t.Errorf("%q is taken", short)
		}
	}
	if _, err := sealPrivate(nil, passphrase, 1000); err == nil {
		t.Error("no key is sealed")
	}

	// The issuer's key is refused as a director's, and the reverse.
	rsa, err := seal(testKey(), passphrase, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPrivate(rsa, passphrase); !errors.Is(err, ErrSealed) {
		t.Error(err)
	}
	if _, err := Open(sealed, passphrase); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
}
