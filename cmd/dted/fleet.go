package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/start"
	"dtegate/cmd/version"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/ship"
	records "dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"

	"github.com/prometheus/client_golang/prometheus"
)

// joinChain makes a branch one of a chain: its agent, the fence that each sale passes, and what ships the second copy. Without
// [fleet] it does nothing.
func joinChain(d *daemon, cfg *config.Config, in *start.Inputs, s *status, registry *prometheus.Registry) (err error) {
	rules := &centreRules{shelf: d.shelf, trail: d.trail, store: d.store, log: d.log, now: cfg.Now}
	if d.fleet, err = openFleet(cfg, in, s, rules, d.log); err != nil || d.fleet == nil {
		return err
	}
	s.fleet = d.fleet
	if s.shipper, err = openShipper(cfg, in, d.fleet, d.store, d.log); err != nil {
		return err
	}
	if s.shipper != nil {
		d.shipper.Store(s.shipper)
		registry.MustRegister(s.shipper)
	}
	d.gate.Obey(d.fleet.Fence())
	registry.MustRegister(d.fleet)
	return nil
}

// openFleet makes the agent of a branch that is one of a chain; nil without [fleet]. It asks the store nothing yet.
func openFleet(cfg *config.Config, in *start.Inputs, s *status, rules *centreRules, log *slog.Logger) (*fleet.Agent, error) {
	f := cfg.Fleet
	if f == nil {
		return nil, nil
	}
	boxKey, made, err := f.MakeBox()
	if err != nil {
		return nil, err
	}
	if made {
		log.Info("made the box's key of the chain", "file", f.Key, "fingerprint", fleetproto.Fingerprint(boxKey.Private.Public().(ed25519.PublicKey)))
	}
	var points []fleetproto.Point
	for _, p := range cfg.Points {
		points = append(points, fleetproto.Point{Establishment: p.Establishment, Point: p.PointOfSale})
	}
	agent, err := fleet.New(fleet.Options{Store: in.Fleet.Store, Chain: in.Fleet.Chain, Branch: f.Branch, Group: f.Group, Director: in.Fleet.Directors, Box: boxKey, Points: points,
		Rules: rules, State: config.Keeper(f.State), Settings: f.Settings(), Describe: s.describe, Poll: time.Duration(f.Poll), Report: time.Duration(f.Report),
		Logger: log, Now: time.Now})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return agent, nil
}

// openShipper makes what carries the second copy into the chain's store; nil where nothing is shipped.
func openShipper(cfg *config.Config, in *start.Inputs, agent *fleet.Agent, store *storage.Store, log *slog.Logger) (*ship.Shipper, error) {
	if agent == nil || cfg.Fleet.Ship == "" {
		return nil, nil
	}
	boxKey, err := cfg.Fleet.Box()
	if err != nil {
		return nil, err
	}
	fence := agent.Fence()
	return ship.New(ship.Options{Store: in.Fleet.Store, Chain: in.Fleet.Chain, Branch: cfg.Fleet.Branch, Box: boxKey, Folder: cfg.SecondCopy, Epoch: func() int64 { return fence.Standing().Epoch },
		Cloned: func() {
			log.Error("another copy of this box ships under its name: nothing is numbered here any more")
			fence.Close()
		}, Live: func() bool {
			second, _ := store.SecondCopy()
			return second.Live
		}, Restart: store.CopyAfter, State: cfg.Fleet.Shipping(), Logger: log, Now: time.Now, Sync: cfg.Fleet.Ship == "sync", Patience: time.Duration(cfg.Fleet.ShipPatience),
		Count: func(ctx context.Context, file string, end int64) (int64, error) {
			return storage.CopyChanges(ctx, cfg.SecondCopy, file, end)
		}})
}

// describe fills in what the branch says of itself to the centre.
func (s *status) describe(w *fleetproto.Status) {
	w.Started, w.Program, w.Name = s.started.UTC(), version.String(), s.cfg.StoreName()
	w.Ready = true
	if err := s.ready(); err != nil {
		w.Ready, w.NotReady = false, []string{inEnglish(err)}
	}
	owed := s.engine.CountBacklog()
	var deadline time.Time
	for _, at := range []time.Time{owed.EventDeadline, owed.DocumentDeadline, owed.CorrectionDeadline, owed.RefusedDeadline} {
		if !at.IsZero() {
			records.Earliest(&deadline, at)
		}
	}
	w.Waiting = fleetproto.Waiting{Oldest: owed.Oldest, Deadline: deadline}
	for _, queue := range []string{records.QueueSettle, records.QueueReport, records.QueueForward} {
		w.Waiting.Documents += int64(owed.Waiting[queue])
	}
	if c := owed.Contingency; c != nil {
		w.Contingency = &fleetproto.Contingency{Since: c.Began, Cause: int(c.Cause), Deadline: deadline}
	}
	for _, e := range s.access.Expiries() {
		w.Certificates = append(w.Certificates, fleetproto.Certificate{Name: e.Name, Ends: e.At.UTC()})
	}
	if s.shipper != nil {
		w.Copy = s.shipper.Shipped()
		w.Copy.Last = s.lastNumbers()
	}
	if today, err := s.tally.Today(); err == nil {
		for _, h := range today.Hours {
			w.Today += int64(h.Normal + h.Contingency + h.Rejected)
			w.Refused += int64(h.Rejected)
		}
	}
}

// lastNumbers are the last numbers of the year's series, and of the last one's in its first month.
func (s *status) lastNumbers() map[string]uint64 {
	all, err := s.store.LastNumbers()
	if err != nil {
		s.log.Error("reading the last numbers for the status", "error", err)
		return nil
	}
	since := strconv.Itoa(dte.Year(s.cfg.Now().AddDate(0, -1, 0)))
	maps.DeleteFunc(all, func(series string, _ uint64) bool { return series[strings.LastIndexByte(series, '/')+1:] < since })
	return all
}

// inEnglish is what an error says to people who read English.
func inEnglish(err error) string {
	var r *refusal.Error
	if errors.As(err, &r) && r.English != "" {
		return r.English
	}
	return err.Error()
}
