// Command dted is the branch appliance.
package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/cmd/term"
	"dtegate/cmd/version"
)

func main() {
	path := flag.String("config", "/etc/dted/dted.toml", "the configuration file")
	shown := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *shown {
		term.Printf("%s\n", version.String())
		return
	}
	if err := serve(*path); err != nil {
		_, _ = io.WriteString(term.Err, "dted: "+term.Lines(err.Error())+"\n")
		os.Exit(1)
	}
}

// serve runs the appliance until it is told to stop.
func serve(path string) error {
	log := slog.New(slog.NewTextHandler(term.Err, &slog.HandlerOptions{ReplaceAttr: withoutNilError}))
	slog.SetDefault(log)
	config.KeepPrivate()
	if err := health.Seal(); err != nil {
		log.Warn("the memory can be read by other processes of this account", "error", err)
	}
	tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, path, log)
}

// tune sets Go's scheduler and collector, unless the environment does.
func tune() {
	if os.Getenv("GOMAXPROCS") == "" {
		// As many signatures as cores leave Go no place to run what the disk has finished: it waited 6 to 25 ms for a
		// signature to end. With more places the kernel decides, and lets who slept go first.
		runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(60) // some 30 MiB less than 100 in a large branch, and no fewer sales a second
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

// withoutNilError leaves an error out that is nil: error=<nil> reads as if there were one.
func withoutNilError(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "error" && a.Value.Any() == nil {
		return slog.Attr{}
	}
	return a
}
