package controlplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// When the centre is told. A box reports every 15 min, see engine/fleet.
const (
	SilentAfter = 45 * time.Minute // three reports
	lostAfter   = 24 * time.Hour
	lawSoon     = 24 * time.Hour // before a legal deadline
	endsSoon    = 30 * 24 * time.Hour
	endsNow     = 7 * 24 * time.Hour
	TakesWithin = 10 * time.Minute // what is desired, of a box that is there
)

// How bad a concern is.
const (
	Fine = iota
	Warning
	Bad
)

// Concern is one thing that somebody should know of a branch.
type Concern struct {
	Level int
	Code  string // of phrases, in whose order the worst stand first
	Args  []any
}

// phrases are the concerns' words, in English and Spanish, the most urgent first.
var phrases = []struct{ code, en, es string }{
	{"replaced", "replaced by another box; it numbers nothing", "otra caja tomó su lugar; ya no numera"},
	{"closed", "cannot sell: %s", "no puede vender: %s"},
	{"forged", "its status is not its box's: %s", "el informe no es de su caja: %s"},
	{"older", "its status was put back: %s", "pusieron un informe anterior: %s"},
	{"acts", "the store has lost its acts %s", "el almacén perdió sus actos %s"},
	{"version", "holds version %d of what is desired, which the store does not have",
		"tiene la versión %d de lo que se pide, que el almacén no tiene"},
	{"overlap", "another branch has its point of sale: %s", "otra sucursal tiene su punto de venta: %s"},
	{"unbound", "its enrolment does not name its point of sale: %s", "su inscripción no nombra su punto de venta: %s"},
	{"lost", "silent for %s", "sin noticias desde hace %s"},
	{"late", "a legal deadline passed %s ago", "un plazo legal venció hace %s"},
	{"former", "the box of epoch %d, which was replaced, still writes its status",
		"la caja de la época %d, ya reemplazada, sigue informando"},
	{"returned", "went back by itself from %s: %s", "volvió por sí misma de %s: %s"},
	{"refused", "refused %s: %s", "rechazó %s: %s"},
	{"rejected", "MH refuses %d of the last %d documents or events of %s",
		"Hacienda rechaza %d de los últimos %d documentos o eventos de %s"},
	{"ended", "certificate %s has ended", "venció el certificado %s"},
	{"never", "enrolled, and never heard of", "inscrita, y nunca informó"},
	{"stranger", "another box, %s, waits to be enrolled in its place", "otra caja, %s, espera inscripción en su lugar"},
	{"silent", "silent for %s", "sin noticias desde hace %s"},
	{"contingency", "in contingency for %s; %s left by law", "en contingencia desde hace %s; quedan %s de ley"},
	{"owing", "%d documents wait for MH; %s left by law", "%d documentos esperan a Hacienda; quedan %s de ley"},
	{"delay", "its status was signed %s before it was written: it was put back, or the box's clock is wrong",
		"su informe se firmó %s antes de escribirse: lo pusieron de nuevo, o el reloj de la caja está mal"},
	{"group", "reports group %s, is enrolled in %s", "informa el grupo %s, está inscrita en %s"},
	{"trouble", "does not do what is desired: %s", "no hace lo que se pide: %s"},
	{"expired", "what it runs was good until %s", "lo que tiene valía hasta %s"},
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
	if lang == "es" {
		return fmt.Sprintf(p.es, c.Args...)
	}
	return fmt.Sprintf(p.en, c.Args...)
}

// Row is a branch with what is to be known of it, the worst first.
type Row struct {
	*Branch
	Concerns []Concern
}

func (r *Row) Level() int {
	if len(r.Concerns) == 0 {
		return Fine
	}
	return r.Concerns[0].Level
}

// noDeadline is behind every other.
var noDeadline = time.Unix(1<<40, 0)

// deadline is the next one of the law, noDeadline where nothing is owed.
func (r *Row) deadline() time.Time {
	at := noDeadline
	if r.Status == nil {
		return at
	}
	if d := r.Status.Waiting.Deadline; !d.IsZero() {
		at = d
	}
	if c := r.Status.Contingency; c != nil && !c.Deadline.IsZero() && c.Deadline.Before(at) {
		at = c.Deadline
	}
	return at
}

// Rows are the branches, the worst first; of equals, whose time by law ends first.
func (s *Survey) Rows() []*Row {
	list := make([]*Row, 0, len(s.Branches))
	for _, b := range s.Branches {
		list = append(list, &Row{b, b.concerns(s.At, s.Desired(b.Group()))})
	}
	slices.SortStableFunc(list, func(a, b *Row) int {
		rank := func(r *Row) int {
			if len(r.Concerns) == 0 {
				return len(phrases)
			}
			return r.Concerns[0].rank()
		}
		return cmp.Or(b.Level()-a.Level(), rank(a)-rank(b), a.deadline().Compare(b.deadline()), strings.Compare(a.Name,
			b.Name))
	})
	return list
}

// concerns are all that is to be known of a branch.
func (b *Branch) concerns(now time.Time, desired *Version) (list []Concern) {
	add := func(level int, code string, args ...any) { list = append(list, Concern{level, code, args}) }
	if b.Fault != "" {
		add(Bad, "forged", b.Fault)
	}
	if b.PutBack != "" {
		add(Bad, "older", b.PutBack)
	}
	if len(b.Missing) > 0 {
		add(Bad, "acts", strings.Trim(fmt.Sprint(b.Missing), "[]"))
	}
	if b.Holds != nil {
		add(Bad, "version", b.Holds.Version)
	}
	if b.Delay > 0 {
		add(Warning, "delay", Span(b.Delay))
	}
	if len(b.Overlap) > 0 {
		add(Bad, "overlap", strings.Join(b.Overlap, ", "))
	}
	if b.Stranger != nil && b.Former > 0 {
		add(Bad, "former", b.Former)
	} else if b.Stranger != nil {
		add(Warning, "stranger", Fingerprint(b.Stranger.Key))
	}
	switch silence := now.Sub(b.Seen); {
	case b.PutBack != "":
	case b.Seen.IsZero():
		add(Bad, "never")
	case silence > lostAfter:
		add(Bad, "lost", Span(silence))
	case silence > SilentAfter:
		add(Warning, "silent", Span(silence))
	}
	if s := b.Status; s != nil {
		if b.Enrolment == nil {
			add(Warning, "waits", Fingerprint(s.Key))
		} else {
			b.enrolled(add)
		}
		b.selling(now, add)
		b.running(now, desired, add)
	}
	slices.SortStableFunc(list, func(a, b Concern) int { return cmp.Or(b.Level-a.Level, a.rank()-b.rank()) })
	return list
}

// enrolled: whose box says something else than the director signed.
func (b *Branch) enrolled(add func(int, string, ...any)) {
	if b.Status.Group != b.Enrolment.Group {
		add(Warning, "group", b.Status.Group, cmp.Or(b.Enrolment.Group, "–"))
	}
	for _, p := range b.Status.Points {
		if !slices.Contains(b.Enrolment.Points, p) {
			add(Bad, "unbound", p.Establishment+p.Point)
		}
	}
}

// selling: who cannot sell, and who is in contingency and how long still inside the law.
func (b *Branch) selling(now time.Time, add func(int, string, ...any)) {
	s := b.Status
	if s.Replaced {
		add(Bad, "replaced")
	} else if !s.Ready {
		add(Bad, "closed", cmp.Or(strings.Join(s.NotReady, "; "), "it does not say why"))
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
		return Span(deadline.Sub(now))
	}
	switch c := s.Contingency; {
	case c != nil && !c.Deadline.IsZero() && now.After(c.Deadline):
		add(Bad, "late", Span(now.Sub(c.Deadline)))
	case c != nil:
		add(law(c.Deadline), "contingency", Span(now.Sub(c.Since)), left(c.Deadline))
	case !s.Waiting.Deadline.IsZero() && now.After(s.Waiting.Deadline):
		add(Bad, "late", Span(now.Sub(s.Waiting.Deadline)))
	case s.Waiting.Documents > 0 && law(s.Waiting.Deadline) == Bad:
		add(Bad, "owing", s.Waiting.Documents, left(s.Waiting.Deadline))
	}
	for _, c := range s.Certificates {
		switch ends := c.Ends.Sub(now); {
		case ends <= 0:
			add(Bad, "ended", c.Name)
		case ends < endsNow:
			add(Bad, "ends", c.Name, Span(ends))
		case ends < endsSoon:
			add(Warning, "ends", c.Name, Span(ends))
		}
	}
	switch {
	case s.Copy != nil && s.Copy.Lacks != "":
		add(Bad, "copy", "a rebuild would not be complete: the store has lost "+s.Copy.Lacks)
	case s.Copy != nil && s.Copy.Why != "":
		add(Warning, "copy", s.Copy.Why)
	}
}

// running: who lacks what it shall run.
func (b *Branch) running(now time.Time, desired *Version, add func(int, string, ...any)) {
	s := b.Status
	if s.Desired.Trouble != "" {
		add(Warning, "trouble", s.Desired.Trouble)
	}
	if !s.Desired.Expires.IsZero() && now.After(s.Desired.Expires) {
		add(Warning, "expired", Local(s.Desired.Expires))
	}
	if r := s.Rollout; r != nil {
		switch r.Stage {
		case fleetproto.StageReturned:
			add(Bad, "returned", r.Name, r.Reason)
		case fleetproto.StageRefused:
			add(Bad, "refused", r.Name, r.Reason)
		}
	}
	for _, r := range refusedByMH(s, nil) {
		add(Bad, "rejected", r.Outcomes.Refused, r.Outcomes.Decided, r.Name+" "+r.Version)
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
		add(Warning, "lacks", name)
	}
}

// lacks are the rules that a branch shall run and does not have; none where it said that it did not take them.
func (b *Branch) lacks(now time.Time, desired *Version) (names []string) {
	wanted := desired.Live
	if r := desired.Rollout; r != nil && r.Takes(b.Name, now) {
		wanted = r.State.Over(desired.Live)
	}
	if r := b.Status.Rollout; r != nil && r.Stage.Failed() {
		return nil
	}
	for _, w := range wanted.Rules {
		if !slices.ContainsFunc(b.Status.Rules, func(r fleetproto.Running) bool { return r.Digest == w.Digest }) {
			names = append(names, w.Name+" "+w.Version)
		}
	}
	return names
}

// Fingerprint is what people compare of a box's key.
func Fingerprint(key string) string {
	public, err := fleetproto.DecodeKey(key)
	if err != nil {
		return "?"
	}
	return fleetproto.Fingerprint(public)
}

// Span writes a time as people read it: the two largest units at most.
func Span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	switch day := 24 * time.Hour; {
	case d < time.Minute:
		return fmt.Sprintf("%s%d s", sign, d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%s%d min", sign, d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%s%d h %d min", sign, d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%s%d d %d h", sign, d/day, d%day/time.Hour)
	}
}
