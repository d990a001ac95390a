// Package operators answers the operators' listener: metrics, readiness, the status page, and everything under /admin. Its texts are
// English.
package operators

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/gateway/page"
)

// Options of New.
type Options struct {
	Contingency Contingency
	Deliveries  Deliveries
	Rules       Rules
	Recall      Recall                // nil: no operator invalidates documents
	Ready       func() error          // nil when the branch can issue
	Status      func() any            // what /status shows, as JSON
	Overview    func() *page.Overview // what the page at / shows
	// AdminToken is the SHA-256 of the admin token; zero lets nobody in.
	AdminToken [32]byte
	// Keeper makes and ends tokens; Audit records what operators do. Without them the admin API does neither.
	Keeper Keeper
	Audit  Audit
	// Backups makes them; nil: nobody does.
	Backups Backups
	// Books reads what the accountant files; nil: nobody may.
	Books Books
}

// Front is what both listeners share.
type Front struct {
	Logger   *slog.Logger
	Now      func() time.Time
	Registry *prometheus.Registry
	Deadline time.Duration   // of a request
	Serving  context.Context // ends when the gateway takes no more requests
	// Refuse makes HTTP of an error.
	Refuse func(ctx *fasthttp.RequestCtx, route string, err error)
	// Wrong is the refusal of a caller without the admin token; given: the caller showed another one.
	Wrong func(ctx *fasthttp.RequestCtx, given bool, message string) error
}

// Routes are the routes of the operators' listener.
type Routes struct {
	Options
	front Front
	board page.Status
}

// New returns the routes. They listen to nothing.
func New(o Options, f Front) *Routes { return &Routes{Options: o, front: f} }
