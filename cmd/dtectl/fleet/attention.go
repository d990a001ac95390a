package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

// Limits for the centre's concerns. A box reports every 15 min, see engine/fleet.
const (
	SilentAfter = 45 * time.Minute    // three reports
	lostAfter   = 24 * time.Hour      // of silence
	lawSoon     = 24 * time.Hour      // before a legal deadline
	endsSoon    = 30 * 24 * time.Hour // before a certificate ends: a warning
	endsNow     = 7 * 24 * time.Hour  // before a certificate ends: bad
	TakesWithin = 10 * time.Minute    // for a reachable box to apply the desired state
)

// Levels of a concern.
const (
	Fine = iota
	Warning
	Bad
)

// Concern is a fact about a branch that somebody should know.
type Concern struct {
	Level int
	Code  string // a code of phrases; their order is the order of urgency
	Args  []any
}

// phrases are the texts of concerns in English and Spanish, the most urgent first.
var phrases = []struct{ code, en, es string }{
	{"replaced", "numbers nothing: another box took its place, or a copy of it runs",
		"no numera: otra caja tomó su lugar, o hay una copia de ella"},
	{"closed", "cannot sell: %s", "no puede vender: %s"},
	{"forged", "its status cannot be believed: %s", "no se puede creer su informe: %s"},
	{"older", "its status was put back: %s", "pusieron un informe anterior: %s"},
	{"acts", "the store has lost its acts %s", "el almacén perdió sus actos %s"},
	{"version", "has version %d of the desired state: the store lacks it, or altered the next one",
		"tiene la versión %d de lo que se pide: el almacén no la tiene, o alteró la siguiente"},
	{"overlap", "another branch has its point of sale: %s", "otra sucursal tiene su punto de venta: %s"},
	{"unbound", "its enrolment does not name its point of sale: %s", "su inscripción no nombra su punto de venta: %s"},
	{"lost", "silent for %s", "sin noticias desde hace %s"},
	{"late", "a legal deadline passed %s ago", "un plazo legal venció hace %s"},
	{"former", "the box of epoch %d, which was replaced, still writes its status",
		"la caja de la época %d, ya reemplazada, sigue informando"},
	{"returned", "went back by itself from %s: %s", "volvió por sí misma de %s: %s"},
	{"refused", "refused %s: %s", "rechazó %s: %s"},
	{"failing", "%[3]s failed at %[1]d of its last %[2]d documents or events",
		"%[3]s falló en %[1]d de sus últimos %[2]d documentos o eventos"},
	{"rejected", "MH refuses %d of the last %d documents or events of %s",
		"Hacienda rechaza %d de los últimos %d documentos o eventos de %s"},
	{"ended", "certificate %s has ended", "venció el certificado %s"},
	{"never", "enrolled, but has never reported", "inscrita, y nunca informó"},
	{"stranger", "another box, %s, waits to be enrolled in its place", "otra caja, %s, espera inscripción en su lugar"},
	{"silent", "silent for %s", "sin noticias desde hace %s"},
	{"contingency", "in contingency for %s; %s left by law", "en contingencia desde hace %s; quedan %s de ley"},
	{"owing", "%d documents wait for MH; %s left by law", "%d documentos esperan a Hacienda; quedan %s de ley"},
	{"delay", "its status was signed %s before it was written: it was put back, or the box's clock is wrong",
		"su informe se firmó %s antes de escribirse: lo pusieron de nuevo, o el reloj de la caja está mal"},
	{"group", "reports group %s, is enrolled in %s", "informa el grupo %s, está inscrita en %s"},
	{"trouble", "does not apply the desired state: %s", "no hace lo que se pide: %s"},
	{"expired", "its desired state expired on %s", "lo que tiene valía hasta %s"},
	{"lacks", "lacks %s", "le falta %s"},
	{"ends", "certificate %s ends in %s", "el certificado %s vence en %s"},
	{"copy", "its copy stands still: %s", "su copia está detenida: %s"},
	{"waits", "waits to be enrolled: %s", "espera inscripción: %s"},
}

func (c Concern) rank() int {
	return slices.IndexFunc(phrases, func(p struct{ code, en, es string }) bool { return p.code == c.Code })
}

func (c Concern) Say(lang string) string {
	p := phrases[c.rank()]
	return fmt.Sprintf(map[string]string{"en": p.en, "es": p.es}[lang], c.Args...)
}

func (b *Branch) Level() int {
	if len(b.Concerns) == 0 {
		return Fine
	}
	return b.Concerns[0].Level
}

// deadline returns the next legal deadline; zero if the branch owes nothing.
func (b *Branch) deadline() (at time.Time) {
	if b.Status == nil {
		return at
	}
	at = b.Status.Waiting.Deadline
	if c := b.Status.Contingency; c != nil && !c.Deadline.IsZero() && (at.IsZero() || c.Deadline.Before(at)) {
		at = c.Deadline
	}
	return at
}

func (b *Branch) silent(now time.Time) bool { return b.Seen.IsZero() || now.Sub(b.Seen) > SilentAfter }

// judge finds the concerns of each branch, and orders the branches.
func (s *Survey) judge() {
	for _, b := range s.Branches {
		b.judge(s.At, s.Desired(b.Group()))
	}
	rank := func(b *Branch) int {
		if len(b.Concerns) == 0 {
			return len(phrases)
		}
		return b.Concerns[0].rank()
	}
	slices.SortStableFunc(s.Branches, func(a, b *Branch) int {
		ends, others := a.deadline(), b.deadline()
		if ends.IsZero() != others.IsZero() { // a branch that owes nothing comes after every deadline
			ends, others = others, ends
		}
		return cmp.Or(b.Level()-a.Level(), rank(a)-rank(b), ends.Compare(others), strings.Compare(a.Name, b.Name))
	})
}

func (b *Branch) add(level int, code string, args ...any) {
	b.Concerns = append(b.Concerns, Concern{level, code, args})
}

func (b *Branch) has(codes ...string) bool {
	return slices.ContainsFunc(b.Concerns, func(c Concern) bool { return slices.Contains(codes, c.Code) })
}

// judge adds the concerns from the branch's status to those that the survey found, and sorts them by urgency.
func (b *Branch) judge(now time.Time, desired *Version) {
	if b.Former > 0 {
		b.add(Bad, "former", b.Former)
	}
	if b.Stranger != nil {
		b.add(Warning, "stranger", Fingerprint(b.Stranger.Key))
	}
	switch silence := now.Sub(b.Seen); {
	case b.has("older"):
	case b.Seen.IsZero():
		b.add(Bad, "never")
	case silence > lostAfter:
		b.add(Bad, "lost", dte.Span(silence))
	case silence > SilentAfter:
		b.add(Warning, "silent", dte.Span(silence))
	}
	if s := b.Status; s != nil {
		if b.Enrolment == nil {
			b.add(Warning, "waits", Fingerprint(s.Key))
		} else {
			b.enrolled()
		}
		b.selling(now)
		b.running(now, desired)
	}
	slices.SortStableFunc(b.Concerns, func(a, b Concern) int { return cmp.Or(b.Level-a.Level, a.rank()-b.rank()) })
}

// enrolled adds a concern if the box's report differs from the enrolment that the director signed.
func (b *Branch) enrolled() {
	if b.Status.Group != b.Enrolment.Group {
		b.add(Warning, "group", b.Status.Group, cmp.Or(b.Enrolment.Group, "–"))
	}
	for _, p := range fleetproto.Unnamed(b.Status.Points, b.Enrolment.Points) {
		b.add(Bad, "unbound", p)
	}
}

// selling adds concerns about sales, legal deadlines, certificates, and the second copy.
func (b *Branch) selling(now time.Time) {
	s := b.Status
	if s.Replaced {
		b.add(Bad, "replaced")
	} else if !s.Ready {
		b.add(Bad, "closed", cmp.Or(strings.Join(s.NotReady, "; "), "it does not say why"))
	}
	law := func(deadline time.Time) int {
		if !deadline.IsZero() && deadline.Sub(now) < lawSoon {
			return Bad
		}
		return Warning
	}
	left := func(deadline time.Time) string {
		if deadline.IsZero() {
			return "–"
		}
		return dte.Span(deadline.Sub(now))
	}
	switch c := s.Contingency; {
	case c != nil && !c.Deadline.IsZero() && now.After(c.Deadline):
		b.add(Bad, "late", dte.Span(now.Sub(c.Deadline)))
	case c != nil:
		b.add(law(c.Deadline), "contingency", dte.Span(now.Sub(c.Since)), left(c.Deadline))
	case !s.Waiting.Deadline.IsZero() && now.After(s.Waiting.Deadline):
		b.add(Bad, "late", dte.Span(now.Sub(s.Waiting.Deadline)))
	case s.Waiting.Documents > 0 && law(s.Waiting.Deadline) == Bad:
		b.add(Bad, "owing", s.Waiting.Documents, left(s.Waiting.Deadline))
	}
	for _, c := range s.Certificates {
		switch ends := c.Ends.Sub(now); {
		case ends <= 0:
			b.add(Bad, "ended", c.Name)
		case ends < endsNow:
			b.add(Bad, "ends", c.Name, dte.Span(ends))
		case ends < endsSoon:
			b.add(Warning, "ends", c.Name, dte.Span(ends))
		}
	}
	switch {
	case s.Copy != nil && s.Copy.Lacks != "":
		b.add(Bad, "copy", "a rebuild would not be complete: the store has lost "+s.Copy.Lacks)
	case s.Copy != nil && s.Copy.Why != "":
		b.add(Warning, "copy", s.Copy.Why)
	}
}

// running adds concerns about the roll-out, MH's refusals, and the desired state of the branch's group.
func (b *Branch) running(now time.Time, desired *Version) {
	s := b.Status
	if s.Desired.Trouble != "" {
		b.add(Warning, "trouble", s.Desired.Trouble)
	}
	if !s.Desired.Expires.IsZero() && now.After(s.Desired.Expires) {
		b.add(Warning, "expired", local(s.Desired.Expires))
	}
	if r := s.Rollout; r != nil {
		switch r.Stage {
		case fleetproto.StageReturned:
			b.add(Bad, "returned", r.Name, r.Reason)
		case fleetproto.StageRefused:
			b.add(Bad, "refused", r.Name, r.Reason)
		}
	}
	for _, r := range harmful(s, nil) {
		code, n, of := "failing", r.Outcomes.Failed, r.Outcomes.Decided+r.Outcomes.Failed
		if r.Outcomes.Rejected() {
			code, n, of = "rejected", r.Outcomes.Refused, r.Outcomes.Decided
		}
		b.add(Bad, code, n, of, r.Name+" "+r.Version)
	}
	if desired == nil {
		return
	}
	since := desired.Issued
	if r := desired.Rollout; r != nil && r.NotBefore.After(since) {
		since = r.NotBefore
	}
	if now.Sub(since) < TakesWithin {
		return
	}
	for _, name := range b.lacks(now, desired) {
		b.add(Warning, "lacks", name)
	}
}

// lacks names the parts of the desired state that a branch has not applied: the last version, and its rules unless the
// branch has reported the roll-out as failed.
func (b *Branch) lacks(now time.Time, desired *Version) (names []string) {
	if b.Status.Desired.Version < desired.Version {
		names = append(names, fmt.Sprintf("version %d", desired.Version))
	}
	wanted := desired.Live
	if r := desired.Rollout; r != nil && r.Takes(b.Name, now) {
		wanted = r.State.Over(desired.Live)
	}
	if r := b.Status.Rollout; r != nil && r.Stage.Failed() {
		return names
	}
	for _, w := range wanted.On(dte.Date(now)) {
		if !slices.ContainsFunc(b.Status.Rules, func(r fleetproto.Running) bool { return r.Digest == w.Digest }) {
			names = append(names, w.Name+" "+w.Version)
		}
	}
	return names
}
