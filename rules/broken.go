package rules

import (
	"encoding/binary"
	"fmt"

	"dtegate/rules/abi"
)

// answerHeader is the length of an answer's header, in bytes.
const answerHeader = 32

// broken names the rule of the interface's page, section Answer, that an answer breaks: whoever wrote the module looks for it there.
// err is what the decoder says.
func broken(answer []byte, err error) error {
	if len(answer) < answerHeader {
		return fmt.Errorf("%w: %d bytes, and the header alone has %d", err, len(answer), answerHeader)
	}
	at := func(offset int) uint64 { return uint64(binary.LittleEndian.Uint32(answer[offset:])) }
	if magic, version := at(0), at(4); magic != abi.Magic || version != abi.Version {
		return fmt.Errorf("%w: it begins with %#x and %d, want %#x and %d at the offsets 0 and 4", err, magic, version, uint32(abi.Magic), abi.Version)
	}
	for _, count := range []struct {
		offset int
		what   string
		most   uint64
	}{{8, "line outputs", abi.MaxWide}, {12, "lines", abi.MaxLines}, {16, "summary fields", abi.MaxWide}, {20, "taxes", abi.MaxWide}, {24, "faults", abi.MaxFaults}} {
		if n := at(count.offset); n > count.most {
			return fmt.Errorf("%w: %d %s at the offset %d, at most %d", err, n, count.what, count.offset, count.most)
		}
	}
	want := answerHeader + 8*(at(12)*at(8)+at(16)+2*at(20)) + 16*at(24)
	if uint64(len(answer)) != want {
		return fmt.Errorf("%w: %d bytes; 32 + 8(no + m + 2t) + 16f is %d with o %d, n %d, m %d, t %d, f %d", err, len(answer), want, at(8), at(12), at(16), at(20), at(24))
	}
	return fmt.Errorf("%w: a tax that is no index of taxes", err)
}
