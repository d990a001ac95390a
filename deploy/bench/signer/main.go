// Dtesign is an experiment, no part of the product: a process that alone holds the signing key and signs digests for the
// appliance over a Unix socket. RATIONALE.md says what it gave ("A signer process").
//
//	dtesign -socket PATH [-by openssl|go] < key.pem
//
// A connection carries one digest at a time: 64 bytes of SHA-512 in, the PKCS #1 v1.5 signature out, as long as the modulus.
// What cannot be signed ends the connection.
package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"syscall"
)

// signer signs one digest at a time.
type signer func(digest []byte) ([]byte, error)

func main() {
	socket := flag.String("socket", "", "path of the Unix socket")
	by := flag.String("by", "openssl", "openssl (libcrypto of this machine) or go (crypto/rsa)")
	flag.Parse()
	if err := run(*socket, *by); err != nil {
		log.Fatal(err)
	}
}

func run(socket, by string) error {
	if err := shut(); err != nil {
		return err
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	key, err := parse(text)
	if err != nil {
		return err
	}
	open := func() (signer, error) { return inGo(key), nil }
	if by == "openssl" {
		open = func() (signer, error) { return inC(key) }
	}
	if err := agree(open, key); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			if err := serve(connection, open); err != nil {
				log.Print(err)
			}
		}()
	}
}

// shut keeps the key out of the swap and of a core file. That memory stays locked needs the limit of a unit of its own.
func shut() error {
	const setDumpable = 4
	if _, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0); failed != 0 {
		return fmt.Errorf("closing the process to others: %w", failed)
	}
	return syscall.Mlockall(syscall.MCL_CURRENT)
}

func parse(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("no PEM on standard input")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is %T", key)
	}
	return private, nil
}

func inGo(key *rsa.PrivateKey) signer {
	return func(digest []byte) ([]byte, error) { return rsa.SignPKCS1v15(nil, key, crypto.SHA512, digest) }
}

// agree refuses a signer that does not do as crypto/rsa does: the signature has only one right value.
func agree(open func() (signer, error), key *rsa.PrivateKey) error {
	sign, err := open()
	if err != nil {
		return err
	}
	for n := range byte(8) {
		digest := sha512.Sum512([]byte{n})
		want, err := inGo(key)(digest[:])
		if err != nil {
			return err
		}
		if got, err := sign(digest[:]); err != nil || string(got) != string(want) {
			return fmt.Errorf("this libcrypto does not sign as crypto/rsa does: %v", err)
		}
	}
	return nil
}

func serve(connection net.Conn, open func() (signer, error)) error {
	sign, err := open()
	if err != nil {
		return err
	}
	for digest := make([]byte, sha512.Size); ; {
		if _, err := io.ReadFull(connection, digest); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		signature, err := sign(digest)
		if err != nil {
			return err
		}
		if _, err := connection.Write(signature); err != nil {
			return err
		}
	}
}
