package operator

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"dtegate/cmd/dted/config"
	"dtegate/gateway/certificate"
)

// OwnOps is how the operators' listener of this box is reached: its certificate is the one in the box's own files.
func OwnOps(cfg *config.Config) (address string, client *http.Client, err error) {
	return ownListener(cfg, "ops.listen", cfg.Ops.Listen, &cfg.Ops.Transport)
}

// OwnAPI is how the tills' listener of this box is reached.
func OwnAPI(cfg *config.Config) (address string, client *http.Client, err error) {
	return ownListener(cfg, "api.listen", cfg.API.Listen, &cfg.API.Transport)
}

func ownListener(cfg *config.Config, setting, listen string, transport *config.Transport) (address string, client *http.Client, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", setting, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if !transport.Encrypted(listen) {
		if err := onThisBox(host, strings.TrimSuffix(setting, ".listen")+".tls"); err != nil {
			return "", nil, fmt.Errorf("%s: %w", setting, err)
		}
		return "http://" + net.JoinHostPort(host, port), &http.Client{}, nil
	}
	file := transport.Certificate
	if file == "" {
		file = cfg.BoxAuthority().ServerFile()
	}
	leaf, err := certificate.Read(file)
	if err != nil {
		return "", nil, err
	}
	client, err = pinned(certificate.Fingerprint(leaf))
	return "https://" + net.JoinHostPort(host, port), client, err
}

// onThisBox refuses a host that plain HTTP would be sent to over a network: a configuration that was copied from another box.
func onThisBox(host, setting string) error {
	if config.CheckURL("http://"+net.JoinHostPort(host, "80")) == nil {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("reading this box's addresses: %w", err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.ParseIP(host)) {
			return nil
		}
	}
	return fmt.Errorf("%s is not an address of this box, and %s is off: run dtectl there", host, setting)
}

// pinned is a client that believes a server whose certificate, or the authority that it shows behind it, has a SHA-256
// fingerprint. An authority is a box's own: its name does not matter.
func pinned(pin string) (*http.Client, error) {
	pin = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(pin, "sha256:"), ":", ""))
	if b, err := hex.DecodeString(pin); err != nil || len(b) != 32 {
		return nil, errors.New("a fingerprint is a SHA-256 in hex: 64 digits")
	}
	verify := func(s tls.ConnectionState) error {
		for i, c := range s.PeerCertificates {
			if certificate.Fingerprint(c) != pin {
				continue
			}
			if i == 0 {
				return nil
			}
			roots := x509.NewCertPool()
			roots.AddCert(c)
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		}
		return errors.New("the server's certificate is not the pinned one")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: verify} // verify looks instead
	return &http.Client{Transport: transport}, nil
}
