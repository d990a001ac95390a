package engine

import (
	"context"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/seller"
)

// Resend mails a document again, see outbox.Resend.
func (e *Engine) Resend(ctx context.Context, code dte.Code, to string, c seller.Caller) (*outbox.Resent, error) {
	return e.outbox.Resend(ctx, code, to, c)
}

// Printed returns the printed version of a document, see outbox.Printed.
func (e *Engine) Printed(ctx context.Context, code dte.Code, c seller.Caller, layout string, escpos bool) ([]byte, error) {
	return e.outbox.Printed(ctx, code, c, layout, escpos)
}

// Archivo returns the legal file of a document, see outbox.Archivo.
func (e *Engine) Archivo(ctx context.Context, code dte.Code, c seller.Caller) ([]byte, error) {
	return e.outbox.Archivo(ctx, code, c)
}

// Link returns a link to a document's printed version, see outbox.Link.
func (e *Engine) Link(ctx context.Context, code dte.Code, c seller.Caller, layout string, life time.Duration) (string, error) {
	return e.outbox.Link(ctx, code, c, layout, life)
}

// GivenUp lists what was given up, see outbox.GivenUp.
func (e *Engine) GivenUp(limit int) ([]outbox.Failure, error) { return e.outbox.GivenUp(limit) }

// Retry sends what was given up again, see outbox.Retry.
func (e *Engine) Retry(ctx context.Context, code dte.Code, archive bool) (int, error) {
	return e.outbox.Retry(ctx, code, archive)
}

// Forget removes what was given up from the list, see outbox.Forget.
func (e *Engine) Forget(ctx context.Context, code dte.Code) (int, error) {
	return e.outbox.Forget(ctx, code)
}

// CheckArchive compares the archive with the store, see outbox.CheckArchive.
func (e *Engine) CheckArchive(ctx context.Context, c *outbox.ArchiveCheck) (*outbox.ArchiveTotals, error) {
	return e.outbox.CheckArchive(ctx, c)
}
