package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
	"dtegate/gateway"
	"dtegate/rules"
	"dtegate/storage"
)

// daemon is the whole appliance, wired. This file is the only wiring.
type daemon struct {
	log      *slog.Logger
	store    *storage.Store
	host     *rules.Host
	tester   *rules.Host // an interpreter for unproven rules; nil when host is one
	shelf    *engine.Shelf
	engine   *engine.Engine
	gateway  *gateway.Gateway
	api, ops net.Listener
}

// open builds the appliance from its configuration and starts nothing but the listeners. What it cannot trust (key,
// rules, issuer's data, store) it refuses here, with the reason.
func open(ctx context.Context, cfg *config.Config, log *slog.Logger) (d *daemon, err error) {
	d = &daemon{log: log}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	key, err := openKey(cfg.Key)
	if err != nil {
		return d, err
	}
	d.host, err = rules.NewHost(ctx, rules.Options{Engine: cfg.Rules.Engine, CacheDir: cfg.Rules.Cache, Logger: log})
	if err != nil {
		return d, fmt.Errorf("starting rule host: %w", err)
	}
	password, err := os.ReadFile(cfg.Authority.PasswordFile)
	if err != nil {
		return d, fmt.Errorf("reading MH's password: %w", err)
	}
	d.store, err = storage.Open(storage.Options{Dir: cfg.Data, MarkPath: cfg.Mark, SecondCopy: cfg.SecondCopy, Logger: log, Now: time.Now})
	if err != nil {
		return d, fmt.Errorf("opening store: %w", err)
	}
	if d.store.Restored() != nil {
		return d, fmt.Errorf("%w: run dtectl reconcile", storage.ErrRestored)
	}
	seller := issuer(cfg)
	d.shelf, err = openShelf(ctx, d, cfg)
	if err != nil {
		return d, err
	}
	client := authority.New(authority.Options{BaseURL: cfg.Authority.URL, NIT: cfg.Issuer.NIT, Password: authority.Password(strings.TrimSpace(string(password))),
		Ambiente: cfg.Ambiente, UserAgent: "dtegate", Now: time.Now, AnswerTimeout: time.Duration(cfg.Authority.AnswerTimeout)})
	deliver, err := delivery(cfg, func(list, code string) (string, bool) { return d.engine.Catalogue(list, code) })
	if err != nil {
		return d, err
	}
	d.engine, err = engine.New(engine.Options{Delivery: deliver, Store: d.store, Signer: sign.New(key, 0), Authority: client, Shelf: d.shelf,
		Issuer: seller, Policy: engine.Policy{Resends: cfg.Authority.Resends}, Contingency: contingency(cfg.Contingency), Logger: log, Now: time.Now})
	if err != nil {
		return d, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), d.engine, d.shelf, d.store, d.host, client)
	table, err := tokens(cfg)
	if err != nil {
		return d, err
	}
	admin, err := adminToken(cfg.Ops.AdminTokenFile)
	if err != nil {
		return d, err
	}
	status := &status{cfg: cfg, shelf: d.shelf, engine: d.engine, host: d.host, started: time.Now()}
	d.gateway = gateway.New(gateway.Options{Engine: d.engine, Rules: d.shelf, Tokens: table, Issuer: information(cfg), Logger: log, Now: time.Now,
		Ready: status.ready, Status: status.show, Registry: registry, AdminToken: admin, PaymentCodes: cfg.Payments,
		Slug: cfg.Issuer.Slug, PublicURL: cfg.API.PublicURL})
	if d.api, err = net.Listen("tcp", cfg.API.Listen); err != nil {
		return d, fmt.Errorf("listening for tills: %w", err)
	}
	if d.ops, err = net.Listen("tcp", cfg.Ops.Listen); err != nil {
		return d, fmt.Errorf("listening for operators: %w", err)
	}
	return d, nil
}

// adminToken is the digest of the admin token; zero when there is no file.
func adminToken(file string) (digest [32]byte, err error) {
	if file == "" {
		return digest, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return digest, fmt.Errorf("reading admin token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 32 {
		return digest, fmt.Errorf("%s: an admin token has at least 32 characters", file)
	}
	return sha256.Sum256([]byte(token)), nil
}

// openKey opens the sealed key and proves it with a test signature.
func openKey(cfg config.Key) (*sign.Key, error) {
	sealed, err := os.ReadFile(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("reading signing key: %w", err)
	}
	passphrase, err := os.ReadFile(cfg.PassphraseFile)
	if err != nil {
		return nil, fmt.Errorf("reading passphrase: %w", err)
	}
	key, err := sign.Open(sealed, []byte(strings.TrimSpace(string(passphrase))))
	if err != nil {
		return nil, fmt.Errorf("opening signing key: %w", err)
	}
	if err := key.Check(); err != nil {
		return nil, fmt.Errorf("testing signing key: %w", err)
	}
	return key, nil
}

// Run serves until ctx ends: requests in flight are finished, then the engine stops, then the store closes.
func (d *daemon) Run(ctx context.Context) error {
	defer d.close()
	d.log.Info("issuing", "api", d.api.Addr().String(), "ops", d.ops.Addr().String())
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.gateway.ServeOps(ctx, d.ops) })
	g.Go(func() error { return d.engine.Run(engineCtx) })
	g.Go(func() error { return d.shelf.Run(engineCtx) })
	g.Go(func() error {
		defer stopEngine()
		return d.gateway.Serve(ctx, d.api)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (d *daemon) close() {
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			d.log.Error("closing store", "error", err)
		}
	}
	for _, h := range []*rules.Host{d.host, d.tester} {
		if h == nil {
			continue
		}
		if err := h.Close(context.Background()); err != nil {
			d.log.Error("closing rule host", "error", err)
		}
	}
	for _, l := range []net.Listener{d.api, d.ops} {
		if l != nil {
			_ = l.Close() // served listeners are closed already
		}
	}
}

// status answers /readyz and /status.
type status struct {
	cfg     *config.Config
	shelf   *engine.Shelf
	engine  *engine.Engine
	host    *rules.Host
	started time.Time
}

// ready is nil when the branch can issue today; MH being down does not make it unready.
func (s *status) ready() error {
	if len(s.rules()) == 0 {
		return errors.New("no rule is valid today")
	}
	return nil
}

func (s *status) rules() map[string]engine.RuleRef {
	return s.shelf.Book().Active(s.cfg.Ambiente, dte.Date(time.Now()))
}

func (s *status) show() any {
	return map[string]any{"ambiente": s.cfg.Ambiente, "branch": s.cfg.Branch.ID, "started": s.started.UTC(),
		"rules": s.rules(), "rules_engine": s.host.Engine(), "rules_return": s.shelf.List().Return, "owed": s.engine.Owed()}
}
