package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"dtegate/cmd/dted/access"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/cmd/version"
	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/authority"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/contingency"
	"dtegate/engine/documents"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/ship"
	"dtegate/engine/outbox"
	records "dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/engine/redacted"
	"dtegate/engine/rulestore"
	"dtegate/engine/sign"
	"dtegate/gateway"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/reply"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// daemon is the whole appliance. Its parts are connected in this file, those of a chain in fleet.go.
type daemon struct {
	log      *slog.Logger
	now      func() time.Time // the branch's clock
	store    *storage.Store
	host     *rules.Host
	tester   *rules.Host // an interpreter for unproven rules; nil if host is an interpreter
	shelf    *rulestore.Store
	trail    *audit.Trail
	engine   *engine.Engine
	gateway  *gateway.Gateway
	link     *connpool.Link // to MH
	gate     *health.Gate
	witness  *witness
	pulse    health.Pulse
	access   *access.Control
	fleet    *fleet.Agent                 // nil: the branch belongs to no chain
	shipper  atomic.Pointer[ship.Shipper] // nil: nothing is shipped
	hook     *outbox.Hook                 // nil: late results are not posted
	api, ops net.Listener
}

// unloadRulesAfter is how long an unused rule stays in memory (some 12 MiB each).
const unloadRulesAfter = 10 * time.Minute

// open builds the appliance from its configuration and starts only the listeners. It fails if it cannot trust the key,
// the rules, the issuer's data or the store.
func open(ctx context.Context, cfg *config.Config, log *slog.Logger) (d *daemon, err error) {
	memory := new(recent)
	log = slog.New(memory.over(log.Handler()))
	d = &daemon{log: log, now: cfg.Now}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	in, faults := cfg.Inputs(ctx, config.InputOptions{Catalogue: func(list, code string) (string, bool) {
		return d.engine.Catalogue(list, code)
	}, View: func(document string, generation int64) *bundle.View { return d.shelf.View(document, generation) }})
	if err := config.Refusal(faults); err != nil {
		return d, err
	}
	exposed, _ := cfg.Exposed()
	for _, err := range exposed {
		log.Warn("a secret is open to others", "error", err)
	}
	d.host, err = rules.NewHost(ctx, rules.Options{Engine: cfg.Rules.Engine, Instances: max(2, runtime.GOMAXPROCS(0)/2),
		CacheDir:    cfg.Rules.Cache,
		UnloadAfter: unloadRulesAfter, Logger: log})
	if err != nil {
		return d, fmt.Errorf("starting rule host: %w", err)
	}
	if err := openStore(d, cfg); err != nil {
		return d, err
	}
	if err := cfg.Rehearse(d.store.LastID(), log); err != nil {
		return d, err
	}
	boxKey := openBoxKey(cfg, log)
	d.trail = audit.New(d.store, cfg.Ambiente, boxKey, cfg.Now)
	if d.shelf, err = openShelf(ctx, d, cfg, in, boxKey); err != nil {
		return d, err
	}
	recordReturn(d.trail, d.shelf.List().Return, log)
	// Record the repairs that dtectl could not record, because it was interrupted or the store was not settled yet.
	if err := d.trail.RecordRepairs(ctx, "dtectl recover", "the branch"); err != nil {
		log.Error("a repair of the store is not in the trail; the next start tries again", "error", err)
	}
	mh := health.NewReach(d.gate, cfg.Now)
	client := authority.New(authority.Options{BaseURL: cfg.Authority.URL, NIT: cfg.Issuer.NIT,
		Password: redacted.Text(in.Password), Ambiente: cfg.Ambiente, UserAgent: "dtegate", Transport: mh,
		Now: cfg.Now, Rehearsal: cfg.Authority.Rehearsal})
	if d.engine, err = engine.New(engineOptions(d, cfg, in, client)); err != nil {
		return d, err
	}
	if d.witness, err = newWitness(d, cfg, d.gate.Stored, in.Delivery.Archive != nil, cfg.Now); err != nil {
		return d, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector(),
		version.NewCollector(), d.engine, openingHours(cfg.Branch, cfg.Now))
	for _, collect := range []prometheus.CollectorFunc{d.shelf.Collect, d.store.Collect, d.host.Collect, d.gate.Collect,
		d.link.Collect, client.Collect} {
		registry.MustRegister(collect)
	}
	if d.access, err = access.Open(cfg, in, d.trail, log); err != nil {
		return d, err
	}
	registry.MustRegister(prometheus.CollectorFunc(d.access.Collect))
	if w := cfg.Webhook; w != nil {
		d.hook = outbox.NewHook(outbox.HookOptions{URL: w.URL, Secret: []byte(in.Hook), Store: d.store,
			Ambiente: cfg.Ambiente,
			Next:     lateResults(d.engine.Documents(), cfg.Branch.ID), Now: cfg.Now, Logger: log})
		registry.MustRegister(prometheus.CollectorFunc(d.hook.Collect))
	}
	status := &status{box: d, cfg: cfg, reach: mh, refused: client.Refused, recent: memory, started: cfg.Now()}
	if cfg.Ambiente == "00" {
		status.permit = documents.NewTally(d.engine.Documents(), cfg.Branch.ID, cfg.Now)
	}
	if err := joinChain(d, cfg, in, status, registry); err != nil {
		return d, err
	}
	d.gateway = gateway.New(gatewayOptions(d, cfg, in, status, registry))
	d.access.Publish = d.gateway.SetTokens
	if d.api, err = net.Listen("tcp", cfg.API.Listen); err != nil {
		return d, config.Listening("api.listen", err)
	}
	if d.ops, err = net.Listen("tcp", cfg.Ops.Listen); err != nil {
		return d, config.Listening("ops.listen", err)
	}
	d.pulse = health.NewPulse(d.store, d.gate, d.witness.unsure, status.ready, log)
	return d, nil
}

func engineOptions(d *daemon, cfg *config.Config, in *config.Inputs, client *authority.Client) engine.Options {
	return engine.Options{Delivery: in.Delivery, Store: d.store, Signer: sign.New(in.Key), Authority: client,
		Shelf:    d.shelf,
		Issuer:   cfg.Seller(),
		DoubtFor: 2 * time.Minute / time.Duration(max(1, cfg.Contingency.Hurry)),
		Patience: time.Duration(cfg.Authority.Patience), PassCodes: cfg.API.UnknownCodes == "pass",
		Contingency: contingency.Options{Responsible: records.Person(cfg.Contingency.Responsible),
			Internet: cfg.Contingency.Internet, Hurry: cfg.Contingency.Hurry}, Reachable: d.link.Ready(), Gate: d.admit,
		Open: cfg.Types.Open, Logger: d.log, Now: cfg.Now, Acted: func(a engine.Act) { recordAct(d.trail, a, d.log) }}
}

func gatewayOptions(d *daemon, cfg *config.Config, in *config.Inputs, s *status,
	registry *prometheus.Registry) gateway.Options {
	return gateway.Options{Sales: d.engine, Types: d.engine.TypeAt, Issued: d.engine.Issued,
		Documents: d.engine.Documents(), Outbox: d.engine.Outbox(), Tokens: d.access.Table(),
		Issuer: information(cfg), Logger: d.log, Now: cfg.Now, Registry: registry, PaymentCodes: cfg.Payments,
		Slug: cfg.Issuer.Slug, PublicURL: cfg.API.PublicURL, Origins: cfg.API.BrowserOrigins,
		RequireKey: cfg.API.RequireKey, APITLS: d.access.TLS("api"), OpsTLS: d.access.TLS("ops"),
		Limits: gateway.Limits{Rate: cfg.API.Rate, Burst: 4 * cfg.API.Rate},
		Usage:  d.engine.Documents().StoredBefore(cfg.Now()),
		Access: gateway.Access{OwnTypes: cfg.Access.Reading == "permission",
			MailAnywhere: cfg.Access.Mailing == "branch"},
		Operators: adminapi.Options{Engine: d.engine, Rules: d.shelf, Ready: s.ready, Status: s.show,
			Overview:   s.overview,
			AdminToken: in.Admin, Keeper: d.access, Audit: d.trail, Backup: d.store.Backup,
			Books: documents.NewMonthReader(d.store)}}
}

// Run serves until ctx ends. It then finishes the open requests, stops the engine, and closes the store.
func (d *daemon) Run(ctx context.Context) error {
	defer d.close()
	go debug.FreeOSMemory() // return the memory that only the start needed
	d.log.Info("issuing", "api", d.api.Addr().String(), "ops", d.ops.Addr().String())
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, d.pulse.Stopping)()
	parts := []func(context.Context) error{d.pulse.Run, d.link.Run, d.gate.Run, d.access.Run,
		health.NewMarkWatch(d.store, d.log).Run,
		func(ctx context.Context) error { return d.witness.run(ctx, d.log.Warn) }}
	if d.fleet != nil {
		parts = append(parts, d.fleet.Run)
	}
	if s := d.shipper.Load(); s != nil {
		parts = append(parts, s.Run)
	}
	if d.store.Behind() == nil { // otherwise no record can be added or changed
		parts = append(parts, d.engine.Run, d.shelf.Run)
		if d.hook != nil {
			parts = append(parts, d.hook.Run)
		}
	}
	for _, run := range parts {
		g.Go(func() error { return run(engineCtx) })
	}
	g.Go(func() error {
		d.store.ReadDaily(engineCtx, fairqueue.Sleep)
		return nil
	})
	g.Go(func() error { return d.gateway.ServeOps(ctx, d.ops) })
	g.Go(func() error {
		defer stopEngine()
		return d.gateway.Serve(ctx, d.api)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lateResults returns a function that makes the body of the webhook's next post: the answer of GET /dte/cambios to a
// till that may read all documents of the branch.
func lateResults(register *documents.Register, branch int64) func(context.Context, uint64) ([]byte, uint64, error) {
	all := records.Caller{Point: records.Point{BranchID: branch}}
	return func(ctx context.Context, after uint64) ([]byte, uint64, error) {
		list, next, err := register.Changes(ctx, after, all)
		if err != nil || len(list) == 0 {
			return nil, after, err
		}
		return reply.Changes(list, next), next, nil
	}
}

// admit returns nil if a new document may be issued. The first call waits for MH, the archive and the chain's store.
func (d *daemon) admit(at records.Point) error {
	d.witness.await()
	if err := d.gate.Admit(); err != nil {
		return err
	}
	return health.CheckPoint(d.fleet, at, d.now())
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
			_ = l.Close() // served listeners are already closed
		}
	}
}

// openStore opens the store and connects the gate with it. The error names what a person must do first.
func openStore(d *daemon, cfg *config.Config) (err error) {
	d.link = cfg.Authority.Link()
	d.gate = health.NewGate(cfg, d.link, d.log)
	options := cfg.Store(d.log)
	options.SecondCopy = cfg.SecondCopy
	options.Carry = func(file string, end int64) {
		if s := d.shipper.Load(); s != nil { // the shipper is made later than the store
			s.Carry(file, end)
		}
	}
	d.store, err = storage.Open(options)
	if errors.Is(err, storage.ErrMark) {
		return fmt.Errorf("%w; dtectl recover puts the mark back, or checks the store and makes a new mark", err)
	}
	if err != nil {
		return err
	}
	if d.store.Restored() != nil {
		return fmt.Errorf("%w: run dtectl recover", storage.ErrRestored)
	}
	return d.gate.Guard(d.store, cfg.Now, d.log)
}

// openBoxKey reads or makes the key by which this box recognises its own records. Without a key, the box's records have
// no mark, and only rules that pinned keys have signed are used.
func openBoxKey(cfg *config.Config, log *slog.Logger) *recordmac.Key {
	key, made, err := cfg.MakeBox()
	switch {
	case err != nil:
		log.Error("the box's key cannot be used: records bear no mark, and only rules that pinned keys signed are used",
			"error", err)
		return nil
	case made:
		log.Info("made the box's key", "file", cfg.BoxKey, "id", key.ID())
	}
	return key
}

// openShelf puts in force the bundles that were in force before, and the new bundles of the rules folder.
func openShelf(ctx context.Context, d *daemon, cfg *config.Config, in *config.Inputs,
	boxKey *recordmac.Key) (*rulestore.Store, error) {
	if d.host.Engine() == "compiler" {
		// The interpreter runs an unproven module first, because there it can do the least harm.
		var err error
		d.tester, err = rules.NewHost(ctx, rules.Options{Engine: "interpreter", Instances: 2, Logger: d.log})
		if err != nil {
			return nil, fmt.Errorf("starting the host of unproven rules: %w", err)
		}
	}
	failure := cfg.Rules.OnFailure
	shelf := rulestore.New(rulestore.Options{Store: d.store, Host: d.host, Interpreter: d.tester, Keys: in.Rules,
		Box: boxKey, Open: cfg.Types.Open, OnFailure: map[string]string{"trap": failure.Trap, "fuel": failure.Fuel,
			"time": failure.Time}, Ambiente: cfg.Ambiente, Accept: cfg.CheckIssuer, Logger: d.log, Now: cfg.Now,
		Points: len(cfg.Points), Returned: func(b rulestore.StepBack) { recordReturn(d.trail, &b, d.log) }})
	if err := shelf.Load(ctx, in.Shipped); err != nil {
		return nil, err
	}
	return shelf, cfg.CheckIssuer(shelf.Book().Layouts())
}

// information returns the issuer's data in the form that the API shows (SPEC 2.8).
func information(c *config.Config) reply.Information {
	i := c.Issuer
	return reply.Information{"id", i.ID, "nit", i.NIT, "nrc", i.NRC, "nombre", i.Name, "nombreComercial", i.TradeName,
		"codigoActividad", i.Activity, "actividadEconomica", i.ActivityDescription, "direccion",
		i.Address.Complemento, "tipoEstablecimiento", i.EstablishmentType, "departamento", i.Address.Departamento,
		"municipio", i.Address.Municipio, "distrito", i.Address.Distrito, "telefono", i.Phone, "correo", i.Mail,
		"logoUrl", i.LogoURL, "colorPrincipal", i.PrimaryColour, "colorSecundario", i.SecondaryColour, "colorFondo",
		i.BackgroundColour, "ambiente", records.AmbienteName(c.Ambiente), "clientId", i.ClientID, "createdAt",
		i.CreatedAt}
}
