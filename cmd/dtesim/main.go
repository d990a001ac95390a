// Command dtesim runs the simulated tax authority as a process. It holds what it receives in memory and forgets it at
// its end, unless -keep names a file.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

func main() {
	o, verbose := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, logger(verbose)); err != nil {
		fmt.Fprintln(os.Stderr, "dtesim:", err)
		os.Exit(1)
	}
}

type options struct {
	issuers    string
	seed       uint64
	production bool
	ahead      time.Duration
	laws       fileList
	keep       string
}

func parse() (o options, verbose bool) {
	flag.StringVar(&o.issuers, "issuers", "", "JSON file: [{nit, password, publicKey: path of a PEM, nrc, activities}]")
	flag.Uint64Var(&o.seed, "seed", 0, "makes seals repeatable; 0 takes the clock")
	flag.BoolVar(&o.production, "rehearse-production", false,
		"accept ambiente 01 too, so that an appliance with authority.rehearsal can rehearse production")
	flag.DurationVar(&o.ahead, "ahead", 0, "how far MH's clock is ahead of this machine's, to rehearse a later day")
	flag.Var(&o.laws, "law", "rule bundle whose rates, thresholds and codes are law from its first day on; may be "+
		"given several times")
	flag.StringVar(&o.keep, "keep", "", "file for accepted documents; the next start reads them from it")
	flag.BoolVar(&verbose, "v", false, "log every reception")
	flag.Parse()
	o.seed = cmp.Or(o.seed, uint64(time.Now().UnixNano()))
	return o, verbose
}

func logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

func run(ctx context.Context, o options, log *slog.Logger) error {
	issuers, err := readIssuers(o.issuers)
	if err != nil {
		return err
	}
	protocol, err := net.Listen("tcp", cmp.Or(os.Getenv("DTESIM_ADDR"), "127.0.0.1:8082"))
	if err != nil {
		return fmt.Errorf("listening for the protocol (DTESIM_ADDR): %w", err)
	}
	manage, err := net.Listen("tcp", cmp.Or(os.Getenv("DTESIM_MANAGE_ADDR"), "127.0.0.1:8083"))
	if err != nil {
		return fmt.Errorf("listening for the management (DTESIM_MANAGE_ADDR): %w", err)
	}
	log.Info("simulated authority", "protocol", protocol.Addr(), "manage", manage.Addr(), "issuers", len(issuers))
	ambiente := "00"
	if o.production {
		ambiente = "01"
		host, _, err := net.SplitHostPort(protocol.Addr().String())
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("a rehearsal of production listens to this machine alone, not to %s", protocol.Addr())
		}
		log.Warn("rehearsal: ambiente 01 is taken; every seal ends in SIMU, and no document is valid")
	}
	s := simulator.New(simulator.Options{Seed: o.seed, Now: func() time.Time { return time.Now().Add(o.ahead) },
		Issuers: issuers, AllowProduction: o.production, Logger: log})
	if err := readLaws(s, o.laws, ambiente, log); err != nil {
		return errors.Join(err, protocol.Close(), manage.Close())
	}
	if o.keep != "" {
		if err := s.Keep(o.keep); err != nil {
			return errors.Join(err, protocol.Close(), manage.Close())
		}
	}
	management := http.NewServeMux()
	management.Handle("/", s.Manage())
	management.HandleFunc("POST /law", takeLaw(s, ambiente))
	return errors.Join(serveWithInbox(ctx, s, management, protocol, manage, log), s.Close())
}
