package main

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"dtegate/cmd/cmdtest/skip"
)

// TestOnline compares the cost of a sale while MH answers with the cost of the same sale while MH is away.
func TestOnline(t *testing.T) {
	skip.Unless(t, *budgets, "make bench-online")
	bare, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{branch: newBranch(t, everyRule...), bare: bare}
	b.row = rows(t)
	b.startLazily()
	defer b.stop()
	b.online(t)
	b.outage(t)
	over := b.overHTTP(t)
	cpu(t, "over HTTP, MH away, one in flight", over, inTurn)
	cpu(t, "over HTTP, MH away, 16 in flight", over, beside)
}

// online: MH answers each sale before the till is answered.
func (b *bench) online(t *testing.T) {
	for i := range 50 {
		b.sell(t, i%8+1)
	}
	over := b.overHTTP(t)
	one := cpu(t, "over HTTP, MH online, one in flight", over, inTurn)
	many := cpu(t, "over HTTP, MH online, 16 in flight", over, beside)
	b.row("process CPU per document, MH online, 1 in flight / bare signature", one, 1.8, "x")
	asked("process CPU per document, MH online, 16 in flight / bare signature", many, 1.35, "x")
}
