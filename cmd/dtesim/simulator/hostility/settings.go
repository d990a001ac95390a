package hostility

import (
	"fmt"
	"slices"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// Chaos holds every hostility; the zero value is a calm authority whose lots take no time. Counters count down as they
// strike. Unless Only restricts them, they strike documents, lots, events and invalidations alike, never logins. All
// other hostilities last until they are switched off.
type Chaos struct {
	// Outage closes the port and cuts every connection: clients are refused. Without Serve, connections are cut.
	Outage bool `json:"outage"`
	// Silence accepts connections and requests, but processes and answers none. When the silence ends, it cuts the
	// connections of these requests.
	Silence bool `json:"silence"`
	// LostAnswers: the next n requests are processed and the connection is cut instead of answering.
	LostAnswers int `json:"lost_answers"`
	// HalfAnswers: the next n requests are processed, and their answers break off in the middle.
	HalfAnswers int `json:"half_answers"`
	// LostRequests: the next n requests are cut before processing.
	LostRequests int `json:"lost_requests"`
	// ServerErrors: the next n requests are answered 500 without processing.
	ServerErrors int `json:"server_errors"`
	// LateRequests: the next n documents sent alone are cut at once, and processed LateMS of Options.Now later. A query
	// in between does not find them; a branch that trusts its answer can send a duplicate without being at fault.
	LateRequests int `json:"late_requests"`
	LateMS       int `json:"late_ms"`
	// HTML: the next n requests are answered 200 with a page of HTML, without processing.
	HTML int `json:"html"`
	// Only limits the six counters above to documents, lots, events, invalidations or queries; "": all but queries.
	Only string `json:"only"`
	// ExpiredTokens: the next n requests of any kind with a valid token are answered 401.
	ExpiredTokens int `json:"expired_tokens"`

	// Reject: the next n documents that would be accepted, alone or in a lot, are refused instead.
	Reject int `json:"reject"`
	// RejectType restricts Reject to a type of document (CAT-002); "" is all.
	RejectType string `json:"reject_type"`
	// RejectEvents: the next n events, contingency or invalidation, that would be received are refused.
	RejectEvents int `json:"reject_events"`
	// RejectLots: the next n lots are refused whole.
	RejectLots int `json:"reject_lots"`
	// LoseLots: the next n lots are answered, but never processed; a query does not find them.
	LoseLots int `json:"lose_lots"`
	// StuckLots: the next n lots are answered, but never processed; a query finds them in process for ever.
	StuckLots int `json:"stuck_lots"`
	// Poison: a document whose codigoGeneracion begins with this text, and every lot with such a document, is answered
	// 500 without processing. "" selects no document, a whole code selects one, and a hexadecimal digit one in sixteen.
	Poison string `json:"poison"`

	// DelayMS delays every answer, in milliseconds of the process's clock. The request is processed at once.
	DelayMS int `json:"delay_ms"`
	// LotMS is how long a lot is in process, in milliseconds of Options.Now. A change applies to lots received after
	// it.
	LotMS int `json:"lot_ms"`
	// ClockMS is how far MH's clock is ahead of Options.Now, in milliseconds; a negative value is behind.
	ClockMS int64 `json:"clock_ms"`

	// LaxOrigins lets a note name an invoice. MH refuses such a note (ME, MF2); the product's API admits it.
	LaxOrigins bool `json:"lax_origins"`
	// StrictOrigins, if not nil, sets LaxOrigins to its opposite; Alter then sets it to nil.
	StrictOrigins *bool `json:"strict_origins,omitempty"`
	// LaxDates lets an invalidation of a 03, 05, 06, 07 or retorno of DTE 2.0 bear any day of its window, as
	// integrators report. MF2 pp.9-17 requires the document's own date.
	LaxDates bool `json:"lax_dates"`
	// StrictBase refuses a withholding or perception of one percent on an invoice or voucher whose base is below 100.00
	// USD (CT art. 162). It is off by default, because no such refusal was published: the law binds the parties, and MH
	// seals such documents.
	StrictBase bool `json:"strict_base"`
	// LoginCode answers every login with this code of authentication, 100 to 111 (MT2). 0 answers normally.
	LoginCode int `json:"login_code"`
}

// LoginTexts maps MH's codes of authentication (MT2) to their texts. The manuals print the codes without the body of
// the answer; therefore the member's name and the spelling are ours.
var LoginTexts = map[int]string{100: "Usuario incorrecto", 101: "Contactar a soporte", 102: "No se pudo autenticar",
	103: "Contraseña expirada", 104: "Debe cambiar la contraseña", 105: "Cambio de contraseña requerido",
	106: "Credenciales inválidas", 107: "Token inválido", 108: "Token requerido", 109: "Error al generar el token",
	110: "Tipo no válido", 111: "Parámetro no válido"}

// Values of Only.
const (
	Documents     = "documents"
	Lots          = "lots"
	Events        = "events"
	Invalidations = "invalidations"
	Queries       = "queries"
)

// Calm returns the state at the start. A real lot of 100 takes minutes; half a second keeps a demonstration lively.
func Calm() Chaos { return Chaos{LotMS: 500} }

// maxDelay bounds an answer's delay in ms; for more than an hour, use Silence. maxLot bounds LotMS and LateMS in ms,
// and maxClock bounds ClockMS in ms.
const (
	maxDelay = 3_600_000
	maxLot   = 7 * 24 * maxDelay
	maxClock = 10 * 365 * 24 * maxDelay
)

func (c *Chaos) Check() error {
	for name, n := range map[string]int{
		"lost_answers": c.LostAnswers, "half_answers": c.HalfAnswers, "lost_requests": c.LostRequests,
		"late_requests": c.LateRequests, "late_ms": c.LateMS, "server_errors": c.ServerErrors, "html": c.HTML,
		"expired_tokens": c.ExpiredTokens, "reject": c.Reject,
		"reject_events": c.RejectEvents, "reject_lots": c.RejectLots, "lose_lots": c.LoseLots,
		"stuck_lots": c.StuckLots, "delay_ms": c.DelayMS, "lot_ms": c.LotMS,
	} {
		if n < 0 {
			return fmt.Errorf("%s is negative", name)
		}
	}
	switch {
	case c.LoginCode != 0 && LoginTexts[c.LoginCode] == "":
		return fmt.Errorf("login_code is %d, not one of 100 to 111", c.LoginCode)
	case c.DelayMS > maxDelay:
		return fmt.Errorf("delay_ms is more than %d", maxDelay)
	case c.LotMS > maxLot || c.LateMS > maxLot:
		return fmt.Errorf("lot_ms or late_ms is more than %d", maxLot)
	case c.ClockMS > maxClock || c.ClockMS < -maxClock:
		return fmt.Errorf("clock_ms is more than %d", maxClock)
	case c.RejectType != "" && !slices.Contains(document.DocumentTypes, c.RejectType) && c.RejectType != "18":
		return fmt.Errorf("reject_type is %q, not a type of document", c.RejectType)
	case !slices.Contains([]string{"", Documents, Lots, Events, Invalidations, Queries}, c.Only):
		return fmt.Errorf("only is %q, not one of documents, lots, events, invalidations, queries", c.Only)
	}
	return nil
}

// Chaos replaces all hostilities by c, and returns when c is in force: once an outage is switched on, the port refuses
// connections; once it is switched off, the port accepts them. Chaos fails if c is not valid or the port cannot be
// opened again.
func (s *Hostility) Chaos(c Chaos) error {
	return s.Alter(func(old *Chaos) error { *old = c; return nil })
}

// Alter calls change on a copy of the hostilities, and puts the copy in force if it is valid.
func (s *Hostility) Alter(change func(*Chaos) error) error {
	s.switching.Lock()
	defer s.switching.Unlock()

	s.mu.Lock()
	c := s.chaos
	if err := change(&c); err != nil {
		s.mu.Unlock()
		return err
	}
	if c.StrictOrigins != nil {
		c.LaxOrigins, c.StrictOrigins = !*c.StrictOrigins, nil
	}
	if err := c.Check(); err != nil {
		s.mu.Unlock()
		return err
	}
	if s.chaos.Silence && !c.Silence {
		close(s.spoken)
		s.spoken = make(chan struct{})
	}
	s.chaos = c
	s.ahead.Store(int64(time.Duration(c.ClockMS) * time.Millisecond))
	door := s.door
	s.mu.Unlock()

	if door == nil {
		return nil
	}
	if c.Outage {
		door.shut()
		return nil
	}
	if err := door.open(); err != nil {
		s.mu.Lock()
		s.chaos.Outage = true
		s.mu.Unlock()
		return fmt.Errorf("ending the outage: %w", err)
	}
	return nil
}

// Hostilities returns the hostilities in force, with what is left of each counter.
func (s *Hostility) Hostilities() Chaos {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chaos
}
