package asmtest

// Description is the description of a Guest: one parameter, one column, one line output, one summary field, one fault.
const Description = `{"abi":1,"name":"x","params":[{"name":"rate","unit":"ratio"}],"scalars":[],` +
	`"columns":[{"name":"cantidad","kind":"amount","required":true}],"line_outputs":[{"name":"ventaGravada","kind":"amount"}],` +
	`"summary":["total"],"taxes":[],"faults":[{"code":"AMOUNT_OVERFLOW","message":"La suma supera lo que cabe"}]}`

// Indexes of a Guest's functions, when it imports none.
const (
	Describe = iota
	Buffer
	Evaluate
	Initialize
	Further // functions added after these
)

// BufferAt is the address of a Guest's message buffer.
const BufferAt = 1 << 16

// Guest makes a rule module out of the code of its entry points. For a nil entry point it uses a correct one, but a nil
// Evaluate traps.
func Guest(description string, buffer, evaluate, initialize []byte) Module {
	if description == "" {
		description = Description
	}
	if buffer == nil {
		buffer = I32Const(BufferAt)
	}
	if evaluate == nil {
		evaluate = []byte{Unreachable}
	}
	return Module{
		Pages: 4,
		Data:  map[int]string{1024: description},
		Functions: []Function{
			Describe: {Export: "dte_describe", Results: []byte{I64},
				Code: I64Const(1024<<32 | int64(len(description)))},
			Buffer:     {Export: "dte_buffer", Params: []byte{I32}, Results: []byte{I32}, Code: buffer},
			Evaluate:   {Export: "dte_evaluate", Params: []byte{I32}, Results: []byte{I32}, Code: evaluate},
			Initialize: {Export: "_initialize", Code: initialize},
		},
	}
}
