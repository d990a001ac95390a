package sdk

import "dtegate/rules/abi"

// A message is a header of four words and then integers (ABI.md), so the buffer is one of integers: what is read lies
// in it, and nothing is decoded.
const headerWords = 4

// read lays in over a message of so many bytes: its slices are the message's own. It is false for one that makes no
// sense.
func read(message []int64, length int, in *abi.Input) bool {
	if length < 8*headerWords || length > 8*len(message) || message[0] != abi.Magic|abi.Version<<32 {
		return false
	}
	params, scalars := int(uint32(message[1])), int(uint32(message[1]>>32))
	columns, lines := int(uint32(message[2])), int(uint32(message[2]>>32))
	rest := message[headerWords : length/8]
	if lines > abi.MaxLines || length != 8*(headerWords+params+scalars+columns*lines) {
		return false
	}
	in.N = lines
	in.Params, rest = rest[:params:params], rest[params:]
	in.Scalars, in.Lines = rest[:scalars:scalars], rest[scalars:]
	return true
}

// write puts an answer over a message and returns its length in bytes, or -1 when it does not fit.
func write(message []int64, out *abi.Output, lineOutputs int) int {
	faults := out.Faults[:min(len(out.Faults), abi.MaxFaults)]
	words := headerWords + len(out.Lines) + len(out.Summary) + 2*len(out.Taxes) + 2*len(faults)
	if words > len(message) {
		return -1
	}
	lines := 0
	if lineOutputs > 0 {
		lines = len(out.Lines) / lineOutputs
	}
	message[0] = abi.Magic | abi.Version<<32
	message[1] = pair(lineOutputs, lines)
	message[2] = pair(len(out.Summary), len(out.Taxes))
	message[3] = pair(len(faults), 0)
	rest := message[headerWords:]
	rest = rest[copy(rest, out.Lines):]
	rest = rest[copy(rest, out.Summary):]
	for i, t := range out.Taxes {
		rest[2*i], rest[2*i+1] = int64(t.Tax), t.Amount
	}
	rest = rest[2*len(out.Taxes):]
	for i, f := range faults {
		rest[2*i], rest[2*i+1] = pair(f.Code, f.Line), pair(f.Column, 0)
	}
	return 8 * words
}

// pair is two 32-bit integers in a word, the first one below.
func pair(low, high int) int64 { return int64(uint32(low)) | int64(high)<<32 }
