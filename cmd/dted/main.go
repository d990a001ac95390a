// Command dted is the branch appliance.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"dtegate/cmd/dted/config"
)

func main() {
	path := flag.String("config", "/etc/dted/dted.toml", "the configuration file")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	slog.SetDefault(log)
	if os.Getenv("GOMAXPROCS") == "" {
		// As many signatures as cores leave Go no place to run what the disk has finished: it waited 6 to 25 ms for a
		// signature to end. With more places the kernel decides, and lets who slept go first.
		runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv("GOGC") == "" {
		go collect(ctx)
	}
	if err := run(ctx, *path, log); err != nil {
		fmt.Fprintln(os.Stderr, "dted:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, log *slog.Logger) error {
	cfg, err := config.Load(path)
	if err != nil {
		return err
	}
	d, err := open(ctx, cfg, log)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// collect has the garbage of a large heap collected when it is 70 % of what lives: 21 MiB less than Go's 100, and no fewer
// sales a second. A small heap may grow to smallHeap first, which saves one or two hundredths of the CPU.
func collect(ctx context.Context) {
	const smallHeap, least, most = 150 << 20, 70, 120
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for was := 0; ; {
		metrics.Read(live)
		percent := min(max(100*smallHeap/int(max(live[0].Value.Uint64(), 1))-100, least), most)
		if percent < was-10 || percent > was+10 { // each change stops the world
			debug.SetGCPercent(percent)
			was = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
