package main

import (
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The functions of OpenSSL 3 that sign (man 3 EVP_PKEY_sign).
var (
	d2iAutoPrivateKey func(into uintptr, der *unsafe.Pointer, n int) uintptr
	evpSHA512         func() uintptr
	ctxNew            func(key, engine uintptr) uintptr
	ctxFree           func(ctx uintptr)
	signInit          func(ctx uintptr) int32
	setPadding        func(ctx uintptr, padding int32) int32
	setDigest         func(ctx, md uintptr) int32
	evpSign           func(ctx uintptr, signature unsafe.Pointer, size *uintptr, digest unsafe.Pointer, n uintptr) int32
)

var load = sync.OnceValue(func() error {
	library, err := purego.Dlopen("libcrypto.so.3", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	for name, function := range map[string]any{
		"d2i_AutoPrivateKey": &d2iAutoPrivateKey, "EVP_sha512": &evpSHA512, "EVP_PKEY_CTX_new": &ctxNew, "EVP_PKEY_CTX_free": &ctxFree,
		"EVP_PKEY_sign_init": &signInit, "EVP_PKEY_CTX_set_rsa_padding": &setPadding, "EVP_PKEY_CTX_set_signature_md": &setDigest, "EVP_PKEY_sign": &evpSign,
	} {
		purego.RegisterLibFunc(function, library, name)
	}
	return nil
})

// inC is a signer of libcrypto's own, for one caller at a time.
func inC(key *rsa.PrivateKey) (signer, error) {
	if err := load(); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	first := unsafe.Pointer(&der[0])
	native := d2iAutoPrivateKey(0, &first, len(der))
	runtime.KeepAlive(der)
	if native == 0 {
		return nil, fmt.Errorf("libcrypto does not read the key")
	}
	const pkcs1 = 1
	ctx := ctxNew(native, 0)
	if ctx == 0 || signInit(ctx) <= 0 || setPadding(ctx, pkcs1) <= 0 || setDigest(ctx, evpSHA512()) <= 0 {
		return nil, fmt.Errorf("libcrypto does not prepare the signature")
	}
	size := key.Size()
	return func(digest []byte) ([]byte, error) {
		signature := make([]byte, size)
		n := uintptr(size)
		if evpSign(ctx, unsafe.Pointer(&signature[0]), &n, unsafe.Pointer(&digest[0]), uintptr(len(digest))) <= 0 || int(n) != size {
			return nil, fmt.Errorf("libcrypto did not sign")
		}
		return signature, nil
	}, nil
}
