package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Keeper serves a certificate from files. Check reads the files again when they have changed. While the files cannot be
// used, Keeper keeps the previous certificate.
type Keeper struct {
	certificate, key string
	live             atomic.Pointer[tls.Certificate]

	mu   sync.Mutex
	seen [2]Stamp // versions of the two files at the last reading
	err  error    // the error of the last reading
}

// Stamp distinguishes two versions of a file. No file has the zero Stamp.
type Stamp struct {
	size int64
	at   time.Time
}

// StampOf returns the present version of a file.
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{size: -1}
	}
	return Stamp{info.Size(), info.ModTime()}
}

// Open reads a certificate with its chain, and its key, from two paths. The paths may be the same.
func Open(certificate, key string) (*Keeper, error) {
	k := &Keeper{certificate: certificate, key: key}
	_, err := k.Check()
	return k, err
}

// Check reads the files if they have changed, and reports whether it replaced the live certificate. It fails if only
// one of the two files is new, and reads both again at the next change.
func (k *Keeper) Check() (changed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := [2]Stamp{StampOf(k.certificate), StampOf(k.key)}
	if now == k.seen {
		return false, k.err
	}
	c, err := tls.LoadX509KeyPair(k.certificate, k.key)
	for i := 1; i < len(c.Certificate) && err == nil; i++ { // a till refuses the whole chain if one part is damaged
		_, err = x509.ParseCertificate(c.Certificate[i])
	}
	k.seen, k.err = now, nil
	if err != nil {
		k.err = fmt.Errorf("reading certificate %s: %w", k.certificate, err)
		return false, k.err
	}
	k.live.Store(&c)
	return true, nil
}

// Config returns the configuration of a server: TLS 1.2 or later, HTTP/1.1.
func (k *Keeper) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.live.Load(), nil }}
}

// Expiry returns when the live certificate ends.
func (k *Keeper) Expiry() time.Time { return k.live.Load().Leaf.NotAfter }
