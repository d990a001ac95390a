package fuel

// Limits that tests compare the engines with.
const (
	MaxWork  = maxWork
	MaxFrame = maxFrame
	MinFrame = minFrame
	// MaxHeld is the stack that an instance may hold in an engine, in bytes: engines double theirs.
	MaxHeld = 3*(Stack+maxFrame) + 1<<20
)

// Work is the estimate of compiling a module that Meter takes, in ns.
func Work(wasm []byte) (int, error) {
	m, err := parse(wasm)
	if err != nil {
		return 0, err
	}
	_, err = m.encode(0)
	return int(m.work), err
}
