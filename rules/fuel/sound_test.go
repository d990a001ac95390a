package fuel_test

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"dtegate/rules/fuel"
)

const (
	soundFuel  = 20_000
	soundSlice = 3000
	soundPages = 16
	worstUnit  = 100 * time.Nanosecond // of the processor, compiled, with all memory in its caches; see TestMeter_Worst
	worstWait  = 4 * time.Microsecond  // where each step waits for memory
	noise      = 4                     // how many times slower this machine may be than it was, and
	hiccup     = 60 * time.Millisecond // how long it may hold a thread up
)

// processor is the time that the thread has spent on a processor.
func processor() time.Duration {
	var u syscall.Rusage
	const thread = 1
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// seen is everything that a run reveals.
type seen struct {
	results []uint64
	failure string
	memory  [32]byte
	fuel    int64 // left
	stack   int64
}

// ran is one engine's run, and its use of the machine.
type ran struct {
	seen
	compiling, running time.Duration
	longest            time.Duration // that the host waited for the guest to return to it
	held               int           // bytes of memory, linear and stack
}

func soundRun(t testing.TB, config wazero.RuntimeConfig, wasm []byte, units int64) (o ran) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(soundPages))
	defer r.Close(ctx)
	lend(t, r)
	began := processor()
	c, err := r.CompileModule(ctx, wasm)
	o.compiling = processor() - began
	if err != nil {
		t.Fatalf("%v\n%x", err, wasm)
	}
	m, err := r.InstantiateModule(ctx, c, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	given, ctx := budget(m, units, soundSlice)
	run := m.ExportedFunction("run")
	began = processor()
	o.results, err = run.Call(ctx)
	o.running, o.longest = processor()-began, given.longest
	if err != nil {
		o.failure, _, _ = strings.Cut(err.Error(), "\n")
	}
	o.fuel, o.stack = given.left(), int64(given.stack.Get())
	b, _ := m.Memory().Read(0, m.Memory().Size())
	o.memory, o.held = sha256.Sum256(b), len(b)
	// Both engines keep their stack in the function that was called.
	if s := reflect.ValueOf(run).Elem().FieldByName("stack"); s.IsValid() && s.Kind() == reflect.Slice {
		o.held += s.Cap() * int(s.Type().Elem().Size())
	} else {
		t.Fatalf("where does %T keep its stack?", run)
	}
	return o
}

// sound checks what holds for every module that Meter accepts. accepted is false for one that it refuses.
func sound(t testing.TB, wasm []byte) (accepted bool, o ran) {
	t.Helper()
	metered, err := fuel.Meter(wasm, plenty)
	if err != nil {
		return false, o
	}
	work, err := fuel.Work(wasm)
	if err != nil || work > fuel.MaxWork {
		t.Fatalf("it was taken, with work for %d ns, %v", work, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fast := soundRun(t, wazero.NewRuntimeConfigCompiler(), metered, soundFuel)
	slow := soundRun(t, wazero.NewRuntimeConfigInterpreter(), metered, soundFuel)
	if !reflect.DeepEqual(fast.seen, slow.seen) {
		t.Fatalf("compiled %+v, interpreted %+v\n%x", fast.seen, slow.seen, wasm)
	}
	if strings.Contains(fast.failure, "stack overflow") {
		t.Fatalf("the engine's stack ended before ours, with %d bytes left\n%x", fast.stack, wasm)
	}
	if fast.compiling > noise*time.Duration(work)+hiccup {
		t.Fatalf("compiled in %v, estimated at %v\n%x", fast.compiling, time.Duration(work), wasm)
	}
	used := soundFuel - fast.fuel
	if fast.fuel < 0 { // worth a longer look
		const more = 300_000
		longer := soundRun(t, wazero.NewRuntimeConfigCompiler(), metered, more)
		if used := more - longer.fuel; longer.running > noise*time.Duration(used)*worstUnit+hiccup {
			t.Fatalf("%d units took %v, more than %v each\n%x", used, longer.running, worstUnit, wasm)
		}
	}
	if fast.running > noise*time.Duration(used)*worstUnit+hiccup {
		t.Fatalf("%d units took %v, more than %v each\n%x", used, fast.running, worstUnit, wasm)
	}
	// One charge may be for more than a slice: a copy of the whole memory.
	if most := noise*max(soundSlice, soundPages<<16/fuel.Grain)*worstWait + hiccup; fast.longest > most {
		t.Fatalf("it did not come back to its host for %v\n%x", fast.longest, wasm)
	}
	if most := soundPages<<16 + fuel.MaxHeld; fast.held > most || slow.held > most {
		t.Fatalf("it holds %d bytes compiled and %d interpreted, more than %d\n%x", fast.held, slow.held, most, wasm)
	}
	return true, fast
}

// FuzzMeter_Sound: every module that Meter accepts compiles within the estimate, ends within its budget's time and the
// memory's limit, returns to its host after each slice, and does the same in both engines. "go test -fuzz
// FuzzMeter_Sound" looks for more.
func FuzzMeter_Sound(f *testing.F) {
	for seed := range 10 {
		f.Add(tape(rand.New(rand.NewPCG(uint64(seed), 11))))
	}
	f.Fuzz(func(t *testing.T, choices []byte) { sound(t, made(choices[:min(len(choices), 4000)])) })
}

func tape(rng *rand.Rand) []byte {
	b := make([]byte, 20+rng.IntN(1<<(6+rng.IntN(6))))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestMeter_Sound runs the fuzz target over random modules, so that every run of the suite does some of it.
func TestMeter_Sound(t *testing.T) {
	modules := 100
	if os.Getenv("DTE_SOAK") != "" {
		modules = 20_000
	}
	rng := rand.New(rand.NewPCG(12, 13))
	accepted, worked, spent := 0, 0, 0
	for range modules {
		ok, o := sound(t, made(tape(rng)))
		switch used := soundFuel - o.fuel; {
		case ok && used >= soundFuel:
			spent++
			fallthrough
		case ok && used > 5:
			worked++
			fallthrough
		case ok:
			accepted++
		}
	}
	if slices.Min([]int{accepted - modules*3/4, worked - modules/5, spent - modules/50}) < 0 {
		t.Errorf("they prove little: %d accepted, %d worked, %d spent all of %d", accepted, worked, spent, modules)
	}
}
