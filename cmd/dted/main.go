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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/cmd/term"
	"dtegate/cmd/version"
	"dtegate/gateway/page"
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
		// If signatures occupy every Go processor, a finished disk write waits 6 to 25 ms. With twice as many Go
		// processors, the kernel decides, and it prefers a thread that has slept.
		runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(60) // a large branch needs some 30 MiB less than with 100, and sells as fast
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

// withoutNilError drops a nil error: error=<nil> reads as if there were an error.
func withoutNilError(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "error" && a.Value.Any() == nil {
		return slog.Attr{}
	}
	return a
}

// recentMost is the number of different warnings and errors remembered; recentLong is the longest text kept, in bytes.
const (
	recentMost = 10
	recentLong = 300
)

// recent remembers the last warnings and errors of the log, for people who cannot read the log. A repeated message is
// one trouble, with a count and the latest text.
type recent struct {
	mu   sync.Mutex
	list []page.Trouble // newest first
}

// over returns a handler that passes every record to h, and remembers warnings and errors.
func (r *recent) over(h slog.Handler) slog.Handler { return remembering{Handler: h, recent: r} }

type remembering struct {
	slog.Handler
	recent *recent
	given  string // attributes of the logger
}

func (h remembering) Handle(ctx context.Context, record slog.Record) error {
	if begin, ends := page.Ends[record.Message]; ends {
		h.recent.end(begin, record.Time)
	}
	if record.Level >= slog.LevelWarn {
		text := record.Message + h.given
		record.Attrs(func(a slog.Attr) bool {
			text += attribute(a)
			return true
		})
		h.recent.note(record, text)
	}
	return h.Handler.Handle(ctx, record)
}

func (h remembering) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.given += attribute(a)
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func attribute(a slog.Attr) string {
	if a = withoutNilError(nil, a); a.Key == "stack" || a.Key == "" {
		return ""
	}
	return " " + a.Key + "=" + a.Value.Resolve().String()
}

func (r *recent) note(record slog.Record, text string) {
	if len(text) > recentLong {
		text = strings.ToValidUTF8(text[:recentLong], "") + "…"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := page.Trouble{At: record.Time, Error: record.Level >= slog.LevelError, Message: record.Message, Text: text,
		Count: 1}
	if at := slices.IndexFunc(r.list, func(x page.Trouble) bool { return x.Message == t.Message }); at >= 0 {
		t.Count += r.list[at].Count
		r.list = slices.Delete(r.list, at, at+1)
	}
	r.list = slices.Insert(r.list, 0, t)
	r.list = r.list[:min(len(r.list), recentMost)]
}

// end records the time at which the trouble with this message ended.
func (r *recent) end(message string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if r.list[i].Message == message {
			r.list[i].Ended = at
		}
	}
}

func (r *recent) troubles() []page.Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
