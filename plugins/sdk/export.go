//go:build wasip1

package sdk

import (
	"unsafe"

	"dtegate/rules/abi"
)

// The module's only message buffer, and values that every call reuses instead of allocating.
var (
	buffer = make([]int64, 8<<10)
	input  abi.Input
	output abi.Output
)

//go:wasmexport dte_describe
func describe() int64 {
	return int64(uintptr(unsafe.Pointer(&description[0])))<<32 | int64(len(description))
}

//go:wasmexport dte_buffer
func grow(size int32) int32 {
	if words := (int(size) + 7) / 8; words > len(buffer) {
		buffer = make([]int64, words)
	}
	return int32(uintptr(unsafe.Pointer(&buffer[0])))
}

//go:wasmexport dte_evaluate
func run(length int32) int32 { return int32(answer(buffer, int(length), &input, &output)) }
