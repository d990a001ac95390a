// Command dtesim is the simulated tax authority as a process. What it receives lives in memory and ends with it.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dtegate/engine/authority/simulator"
)

func main() {
	issuers := flag.String("issuers", "", "JSON file: [{nit, password, publicKey: path of a PEM, nrc, activities}]")
	seed := flag.Uint64("seed", 0, "makes seals repeatable; 0 takes the clock")
	production := flag.Bool("rehearse-production", false, "take ambiente 01 too, so that an appliance set to authority.rehearsal can rehearse production")
	verbose := flag.Bool("v", false, "log every reception")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *issuers, cmp.Or(*seed, uint64(time.Now().UnixNano())), *production, logger(*verbose)); err != nil {
		fmt.Fprintln(os.Stderr, "dtesim:", err)
		os.Exit(1)
	}
}

func logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

func run(ctx context.Context, file string, seed uint64, production bool, log *slog.Logger) error {
	issuers, err := readIssuers(file)
	if err != nil {
		return err
	}
	protocol, err := net.Listen("tcp", cmp.Or(os.Getenv("DTESIM_ADDR"), "127.0.0.1:8082"))
	if err != nil {
		return fmt.Errorf("listening for the protocol: %w", err)
	}
	manage, err := net.Listen("tcp", cmp.Or(os.Getenv("DTESIM_MANAGE_ADDR"), "127.0.0.1:8083"))
	if err != nil {
		return fmt.Errorf("listening for the management: %w", err)
	}
	log.Info("simulated authority, memory only", "protocol", protocol.Addr(), "manage", manage.Addr(), "issuers", len(issuers))
	if production {
		host, _, err := net.SplitHostPort(protocol.Addr().String())
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("a rehearsal of production listens to this machine alone, not to %s", protocol.Addr())
		}
		log.Warn("rehearsal: ambiente 01 is taken; every seal ends in SIMU, and no document is valid")
	}
	s := simulator.New(simulator.Options{Seed: seed, Now: time.Now, Issuers: issuers, AllowProduction: production, Logger: log})
	return serveWithInbox(ctx, s, protocol, manage, log)
}
