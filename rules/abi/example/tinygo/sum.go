//go:build tinygo

// The rule module of sum.ts in TinyGo. Build it, in this folder, with
//
//	tinygo build -target wasm-unknown -opt 2 -panic trap -o sum.wasm sum.go
//
// It has a few KiB; a plain Go guest has 1.9 MiB. A panic is a trap, after which the host discards the instance.
package main

import "unsafe"

const (
	magic    = 0x31455444
	header   = 32
	maxLines = 2000
)

const description = `{"abi":1,"name":"sum","params":[{"name":"rate","unit":"ratio"}],"scalars":[],` +
	`"columns":[{"name":"cantidad","kind":"amount","required":true}],` +
	`"line_outputs":[{"name":"ventaGravada","kind":"amount"}],"summary":["total"],"taxes":[],` +
	`"faults":[{"code":"AMOUNT_OVERFLOW","message":"La suma supera lo que cabe"}]}`

// buffer is 128 KiB, more than any message of this rule; the host never asks for less than 64 KiB.
var buffer [16 << 10]int64

//go:wasmexport dte_describe
func describe() int64 {
	return int64(uintptr(unsafe.Pointer(unsafe.StringData(description))))<<32 | int64(len(description))
}

// grow answers 0, which is not an address, if the buffer is smaller than size.
//
//go:wasmexport dte_buffer
func grow(size int32) int32 {
	if int(size) > 8*len(buffer) {
		return 0
	}
	return int32(uintptr(unsafe.Pointer(&buffer)))
}

// pair returns two 32-bit integers in one word, the first in the lower half.
func pair(low, high int) int64 { return int64(uint32(low)) | int64(high)<<32 }

//go:wasmexport dte_evaluate
func evaluate(length int32) int32 {
	if length < header || int(length) > 8*len(buffer) || buffer[0] != pair(magic, 1) {
		return -1
	}
	// One parameter, no scalar, one column if there is a line. Every count is checked before it is multiplied.
	n, columns := int(uint32(buffer[2]>>32)), 0
	if n > maxLines {
		return -1
	}
	if n > 0 {
		columns = 1
	}
	if buffer[1] != pair(1, 0) || int(uint32(buffer[2])) != columns || int(length) != header+8+8*n {
		return -1
	}
	total := int64(0)
	for i := range n {
		// The answer overwrites the input, but only input that was read already.
		amount := buffer[5+i]
		sum := total + amount
		if (total^sum)&(amount^sum) < 0 {
			buffer[1], buffer[2], buffer[3] = pair(1, 0), 0, pair(1, 0)
			buffer[4], buffer[5] = pair(0, i), pair(-1, 0) // code 0, in a line, in no column
			return header + 16
		}
		total = sum
		buffer[4+i] = amount
	}
	buffer[4+n] = total
	buffer[1], buffer[2], buffer[3] = pair(1, n), pair(1, 0), 0
	return int32(header + 8*n + 8)
}

func main() {}
