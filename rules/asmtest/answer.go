package asmtest

import (
	"encoding/binary"

	"dtegate/rules/abi"
)

// Answer encodes a module's answer; lineOutputs is the width of a row.
func Answer(out *abi.Output, lineOutputs int) []byte {
	lines := 0
	if lineOutputs > 0 {
		lines = len(out.Lines) / lineOutputs
	}
	faults := out.Faults[:min(len(out.Faults), abi.MaxFaults)]
	var b []byte
	for _, n := range [...]int{abi.Magic, abi.Version, lineOutputs, lines, len(out.Summary), len(out.Taxes),
		len(faults), 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = append(append(b, abi.Bytes(out.Lines)...), abi.Bytes(out.Summary)...)
	for _, t := range out.Taxes {
		b = append(b, abi.Bytes([]int64{int64(t.Tax), t.Amount})...)
	}
	for _, f := range faults {
		for _, n := range [...]int{f.Code, f.Line, f.Column, 0} {
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(n)))
		}
	}
	return b
}
