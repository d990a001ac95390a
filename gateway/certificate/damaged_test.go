package certificate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever is damaged in a file of the TLS folder: the box serves a certificate that a till with the authority accepts,
// after a renewal if need be, or says which file is damaged.
func TestOwn_Damaged(t *testing.T) {
	o, now := newOwn(t)
	trusted, err := o.Authority()
	if err != nil {
		t.Fatal(err)
	}
	served, named := 0, 0
	for _, name := range []string{authorityFile, authorityKey, serverFile} {
		path := filepath.Join(o.Folder, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		harmed := map[string][]byte{"cut": whole[:len(whole)/2], "emptied": {}, "removed": nil}
		for i := range 40 {
			at := i * len(whole) / 40
			b := []byte(string(whole))
			b[at] ^= 1 << (i % 7)
			harmed[fmt.Sprintf("a bit of byte %d", at)] = b
		}
		server, err := os.ReadFile(o.ServerFile())
		if err != nil {
			t.Fatal(err)
		}
		for what, data := range harmed {
			if err := os.WriteFile(o.ServerFile(), server, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if data != nil {
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			why, err := o.Due()
			if err == nil && why != "" {
				err = o.Renew()
			}
			if err == nil {
				err = o.CheckKey()
			}
			if err != nil {
				if named++; !strings.Contains(err.Error(), path) {
					t.Errorf("%s, %s: the error does not name the file: %v", name, what, err)
				}
				continue
			}
			served++
			k, err := Open(o.ServerFile(), o.ServerFile())
			if err == nil {
				_, err = handshake(t, k, trusted, "localhost", *now)
			}
			if err != nil {
				t.Errorf("%s, %s: a till refuses what is served: %v", name, what, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if served < 40 || named < 40 {
		t.Errorf("%d served, %d named", served, named)
	}
}
