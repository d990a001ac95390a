package main

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/cmd/dtesim/simulator"
)

// readIssuers reads the registered issuers from a file. Paths of keys are relative to the file's folder.
func readIssuers(path string) ([]simulator.Issuer, error) {
	if path == "" {
		return nil, errors.New("-issuers is required: an authority that knows nobody accepts nothing")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading issuers: %w", err)
	}
	var entries []struct {
		NIT        string   `json:"nit"`
		Password   string   `json:"password"`
		PublicKey  string   `json:"publicKey"`
		NRC        string   `json:"nrc"`
		Activities []string `json:"activities"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&entries); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s lists no issuer", path)
	}
	var issuers []simulator.Issuer
	for i, e := range entries {
		if e.NIT == "" || e.Password == "" || e.PublicKey == "" {
			return nil, fmt.Errorf("%s: issuer %d: nit, password and publicKey are required", path, i+1)
		}
		if err := simulator.CheckPassword(e.Password); err != nil {
			return nil, fmt.Errorf("%s: issuer %d: %w", path, i+1, err)
		}
		file := e.PublicKey
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		key, err := readKey(file)
		if err != nil {
			return nil, fmt.Errorf("reading the key of %s: %w", e.NIT, err)
		}
		issuers = append(issuers, simulator.Issuer{
			NIT: e.NIT, Password: e.Password, PublicKey: key, NRC: e.NRC, Activities: e.Activities,
		})
	}
	return issuers, nil
}

func readKey(path string) (*rsa.PublicKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("%s holds no PEM of type PUBLIC KEY", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, MH signs with RSA", path, key)
	}
	return public, nil
}
