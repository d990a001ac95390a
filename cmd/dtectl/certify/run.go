package certify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/rules/bundle"
)

// poll is the pause between two requests for the branch's progress while the run waits for MH.
const poll = 250 * time.Millisecond

// send sends one test after another, until nothing more can be sent and MH has decided what was sent.
func (r *Runner) send(ctx context.Context) error {
	var since time.Time // when the current wait for MH began; zero: no wait
	for {
		if err := r.look(ctx); err != nil {
			return err
		}
		if err := r.obstacle(); err != nil {
			return err
		}
		if err := r.fillPools(ctx); err != nil {
			return err
		}
		kind, deferred := "", false
		if r.status.Owed.Contingency == nil {
			kind, deferred = r.next()
		}
		if kind == "" {
			if !r.waits() {
				return nil
			}
			if since.IsZero() {
				since = r.o.Now()
			}
			if waited := r.o.Now().Sub(since); waited > r.o.Patience {
				return fmt.Errorf("%w: waited for %v; run it again, it goes on where it stopped", ErrAway,
					waited.Round(time.Second))
			}
			what := fmt.Sprintf("waiting for MH to decide %d records", r.undecided())
			if p := r.status.Owed.Contingency; p != nil {
				what = "MH has not answered since " + p.Began.Format(time.TimeOnly) + ": waiting"
			}
			r.say(what)
			if err := fairqueue.Sleep(ctx, poll); err != nil {
				return err
			}
			continue
		}
		since = time.Time{}
		if err := fairqueue.Sleep(ctx, max(0, r.o.Pace-r.o.Now().Sub(r.sent))); err != nil {
			return err
		}
		r.sent = r.o.Now()
		if err := r.one(ctx, kind, deferred); err != nil {
			return err
		}
	}
}

// obstacle returns an error if the run cannot continue until a person acts.
func (r *Runner) obstacle() error {
	p := r.status.Owed.Contingency
	switch {
	case p == nil:
		return nil
	case p.Declared:
		return ErrDeclared
	case p.Cause == 2: // CAT-005: the branch's own system, which includes credentials that MH refuses
		return fmt.Errorf("%w: %s; correct authority.password_file or issuer.nit in the configuration, restart the "+
			"appliance, and run it again", ErrCredentials, p.Motive)
	}
	return nil
}

// waits reports whether this run must wait until MH decides about a document or an event.
func (r *Runner) waits() bool {
	if r.status.Owed.Contingency != nil {
		return true
	}
	for _, k := range r.o.Kinds {
		c := r.count(k)
		if c.Sealed < c.Wanted && c.Waiting > 0 && !r.givenUp(k) {
			return true
		}
	}
	c := r.count(contingency)
	return r.wants(contingency) && c.Sealed < c.Wanted && (r.undecided() > 0 || r.round >= c.Sealed)
}

// undecided returns the number of documents and events that MH has still to decide. It does not read Owed, which may be
// two seconds old.
func (r *Runner) undecided() (n int) {
	for _, c := range r.status.Authorisation.Kinds {
		n += c.Waiting
	}
	return n
}

// next returns the kind with the smallest share done, so that the kinds are mixed as in a shop; "" if nothing can be
// sent. deferred: a contingency event is due, and the document is issued in contingency.
func (r *Runner) next() (kind string, deferred bool) {
	part := 2.0
	for _, k := range r.o.Kinds {
		c := r.count(k)
		missing := c.Missing()
		if k == sales[0] && r.wants(contingency) { // keep a sale for each event that is still due
			missing -= r.count(contingency).Missing()
		}
		if k == contingency || missing <= 0 || !r.able(k) {
			continue
		}
		if p := float64(c.Sealed+c.Waiting) / float64(c.Wanted); p < part {
			kind, part = k, p
		}
	}
	if base := originOf(kind); base != "" && len(r.pools[base]) == 0 {
		kind = base // the kind refers to a sale: make a sale first
	}
	if r.eventDue() {
		if kind == "" || originOf(kind) != "" {
			kind = sales[0]
		}
		return kind, true
	}
	return kind, false
}

// able reports whether a kind can be sent: it is not given up, and its sale exists or can be sent.
func (r *Runner) able(kind string) bool {
	base := originOf(kind)
	return !r.givenUp(kind) && (base == "" || len(r.pools[base]) > 0 || !r.givenUp(base))
}

// eventDue reports whether a document must be issued in contingency now, to cause an event. Only one event may be open.
func (r *Runner) eventDue() bool {
	c := r.count(contingency)
	return r.wants(contingency) && c.Missing() > 0 && !r.givenUp(sales[0]) && c.Sealed > r.round && r.undecided() == 0
}

func (r *Runner) one(ctx context.Context, kind string, deferred bool) error {
	c := r.count(kind)
	// The Idempotency-Key contains the ordinal. For a key of an earlier run, the branch returns that run's document.
	// Ordinals therefore begin at the number of documents so far, and a run uses each once.
	ordinal := max(c.Sealed+c.Waiting+c.Refused, r.ordinals[kind])
	r.ordinals[kind] = ordinal + 1
	if kind == invalidation {
		return r.invalidate(ctx, ordinal)
	}
	body, origin, err := r.body(ctx, kind, ordinal)
	if err != nil {
		return err
	}
	if deferred {
		body["testContingencia"] = true
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var got record
	err = r.till.insist(ctx, http.MethodPost, Path(kind), fmt.Sprintf("certify-%016x-%s-%d", r.o.Seed, kind, ordinal),
		text, &got)
	if no, ok := errors.AsType[*adminclient.Refusal](err); ok {
		r.unissued(kind, origin, no)
		return nil
	}
	if err != nil {
		return err
	}
	r.invalid[kind] = 0
	if deferred { // only now: a sale that the branch refused causes no event
		r.round = r.count(contingency).Sealed
	}
	if types[kind].Effect == bundle.TakesBack {
		r.use(originOf(kind), origin) // a document with a return cannot be invalidated
	}
	switch got.Estado {
	case "PROCESSED":
		r.inARow[kind] = 0
		if !slices.Contains(r.pools[kind], got.Code) && !r.used[got.Code] {
			r.pools[kind] = append(r.pools[kind], got.Code)
		}
	case "REJECTED":
		if r.inARow[kind]++; r.inARow[kind] >= mostRefused {
			r.refusedTooOften(kind, got.Answer)
		}
	}
	r.say(kind + " " + got.Estado)
	return nil
}

// unissued records that the branch refused a request. A request that refers to a document (origin is its code, or "")
// is first tried with other documents. Status 422 means that an earlier run used the same Idempotency-Key for another
// request: the document of that run counts, and nothing is recorded.
func (r *Runner) unissued(kind, origin string, no *adminclient.Refusal) {
	if no.Status == http.StatusUnprocessableEntity {
		return
	}
	f := Refusal{Kind: kind, By: "branch", Code: no.Type, Text: no.Message, Documents: 1}
	if len(no.Errors) > 0 {
		f.Field, f.Text = no.Errors[0].Path, no.Errors[0].Message
	}
	r.invalid[kind]++
	last := r.invalid[kind] >= mostInvalid || no.Status == http.StatusForbidden || no.Status == http.StatusUnauthorized
	if origin != "" {
		r.use(originOf(kind), origin) // the next attempt refers to another document
	}
	if origin == "" || last {
		r.faults = append(r.faults, f)
	}
	if last {
		r.stop(kind, no.Error(), "la sucursal responde "+no.Text())
	}
}

// fillPools fills the empty pools with sales of earlier runs, and with sales that MH sealed late.
func (r *Runner) fillPools(ctx context.Context) error {
	for _, kind := range sales {
		sealed := r.count(kind).Sealed
		if len(r.pools[kind]) > 0 || sealed == r.filled[kind] {
			continue
		}
		list, err := r.till.documents(ctx, kind, "PROCESSED", r.status.Authorisation.Since)
		if err != nil {
			return err
		}
		r.filled[kind] = sealed
		for _, d := range list {
			if !r.used[d.Code] {
				r.pools[kind] = append(r.pools[kind], d.Code)
			}
		}
	}
	return nil
}

// use removes a document from its pool: no other document may refer to it.
func (r *Runner) use(kind, code string) {
	r.used[code] = true
	r.pools[kind] = slices.DeleteFunc(r.pools[kind], func(c string) bool { return c == code })
}

// body returns a till's request. origin is the code of the document to which the request refers, or "".
func (r *Runner) body(ctx context.Context, kind string, ordinal int) (body tree, origin string, err error) {
	if body, err := Sample(r.o.Seed, kind, ordinal, dte.Date(r.o.Now()), r.o.Receivers); err != nil || body != nil {
		return body, "", err
	}
	pool := r.pools[originOf(kind)]
	at := ordinal % len(pool)
	if types[kind].Effect != bundle.Credits {
		at = len(pool) - 1 - at // returns and debit notes take the last documents, credit notes the first
	}
	d, err := r.till.document(ctx, pool[at])
	if err != nil {
		return nil, "", err
	}
	original := new(sold)
	if err := json.Unmarshal(d.JSON, original); err != nil {
		return nil, "", fmt.Errorf("reading document %s: %w", d.Code, err)
	}
	rng := newMaker(r.o.Seed, kind, ordinal)
	if types[kind].Effect == bundle.TakesBack {
		return giveBack(rng, pool[at], original), pool[at], nil
	}
	return note(rng, kind, pool[at], original), pool[at], nil
}

// invalidate invalidates an invoice. Two reasons alternate: the sale is rescinded, or another invoice replaces it.
func (r *Runner) invalidate(ctx context.Context, ordinal int) error {
	pool, at := r.pools[sales[0]], 0 // the oldest: a later run must choose the same document
	body := tree{"tipoAnulacion": whole(2), "motivo": "El cliente rescindió la compra", "responsable": r.o.Responsible,
		"solicita": Person{Name: "Ana Morales", DocumentType: "13", Document: "043216789"}}
	if ordinal%2 == 1 && len(pool) > 1 {
		body["tipoAnulacion"], body["motivo"], body["codigoGeneracionReemplazo"] = whole(1),
			"Datos del cliente equivocados", pool[len(pool)-1]
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var got record
	err = r.till.insist(ctx, http.MethodPost, "/dte/invalidacion/"+pool[at], "", text, &got)
	if no, ok := errors.AsType[*adminclient.Refusal](err); ok {
		r.unissued(invalidation, pool[at], no)
		return nil
	}
	if err != nil {
		return err
	}
	r.invalid[invalidation] = 0
	r.use(sales[0], pool[at])
	switch {
	case got.Estado == "INVALIDATED":
		r.inARow[invalidation] = 0
	case got.Invalid != nil && got.Invalid.Estado == "REJECTED":
		r.faults = append(r.faults, refusal(invalidation, got.Code, got.Invalid.Answer))
		if r.inARow[invalidation]++; r.inARow[invalidation] >= mostRefused {
			r.refusedTooOften(invalidation, got.Invalid.Answer)
		}
	}
	r.say("invalidacion " + cmp.Or(got.Estado, "?"))
	return nil
}
