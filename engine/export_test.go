package engine

import (
	"context"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// What the engine's own tests, which stand outside of the package for the sake of enginetest, use of its inside.

const (
	ManyLines   = manyLines
	SettleAfter = settleAfter
)

var AmountOf = amount

var LastDay = lastDay

func (e *Engine) Opts() *Options            { return &e.o }
func (e *Engine) Large() *fairqueue.Queue   { return e.large }
func (e *Engine) Signer() *sign.Signer      { return e.signer }
func (e *Engine) Shelf() *rulestore.Store   { return e.shelf }
func (e *Engine) Lost() *record.LostRecords { return e.lost }

func (e *Engine) RulesInForce() *rulestore.Book { return e.rules() }

func (e *Engine) Move(
	ctx context.Context,
	entry storage.Entry,
	change storage.Change,
	h *record.Head,
) (storage.Entry, error) {
	return e.move(ctx, entry, change, h)
}

func (e *Engine) CorrectEntry(ctx context.Context, entry storage.Entry, h *record.Head, req Request, digest string) (
	storage.Entry, int64, error) {
	return e.correct(ctx, entry, h, req, digest)
}

// FormOfLostTime returns a document's head and new parts after MH sealed it in a time that the store has lost.
func (e *Engine) FormOfLostTime(ctx context.Context, entry storage.Entry, h record.Head, forms []storage.Part,
	sealed time.Time) (string, *record.Head, []storage.Part, error) {
	var change storage.Change
	proof, err := e.formOfLostTime(ctx, entry, &h, forms, []string{h.Form}, sealed, &change)
	return proof, &h, change.Parts, err
}

func (e *Engine) View(entry storage.Entry) (*record.View, error) { return e.public(entry) }

func (e *Engine) ResumeInvalidations(ctx context.Context, before time.Time) error {
	return e.resumeInvalidations(ctx, before)
}

func (e *Engine) NewDraft(req Request, now time.Time) (*draft, error) {
	return e.newDraft(req, now, now)
}

func (d *draft) DraftFacts() dte.Value { return d.facts }
