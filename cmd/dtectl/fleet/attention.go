package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/fleet/wire"
)

// When the centre is told. A box reports every 15 min, see engine/fleet.
const (
	silentAfter = 45 * time.Minute // three reports
	lostAfter   = 24 * time.Hour
	lawSoon     = 24 * time.Hour // before a legal deadline
	endsSoon    = 30 * 24 * time.Hour
	endsNow     = 7 * 24 * time.Hour
	takesWithin = 10 * time.Minute // what is desired, of a box that is there
)

// How bad a concern is.
const (
	fine = iota
	warning
	bad
)

// concern is one thing that somebody should know of a branch.
type concern struct {
	Level int
	Code  string // of phrases, in whose order the worst stand first
	Args  []any
}

// phrases are the concerns' words, in English and Spanish, the most urgent first.
var phrases = []struct{ code, en, es string }{
	{"replaced", "replaced by another box; it numbers nothing", "otra caja tomó su lugar; ya no numera"},
	{"closed", "cannot sell: %s", "no puede vender: %s"},
	{"forged", "its status is not its box's: %s", "el informe no es de su caja: %s"},
	{"lost", "silent for %s", "sin noticias desde hace %s"},
	{"late", "a legal deadline passed %s ago", "un plazo legal venció hace %s"},
	{"former", "the box of epoch %d, which was replaced, still writes its status", "la caja de la época %d, ya reemplazada, sigue informando"},
	{"returned", "went back by itself from %s: %s", "volvió por sí misma de %s: %s"},
	{"refused", "refused %s: %s", "rechazó %s: %s"},
	{"ended", "certificate %s has ended", "venció el certificado %s"},
	{"never", "enrolled, and never heard of", "inscrita, y nunca informó"},
	{"stranger", "another box, %s, waits to be enrolled in its place", "otra caja, %s, espera inscripción en su lugar"},
	{"silent", "silent for %s", "sin noticias desde hace %s"},
	{"contingency", "in contingency for %s; %s left by law", "en contingencia desde hace %s; quedan %s de ley"},
	{"owing", "%d documents wait for MH; %s left by law", "%d documentos esperan a Hacienda; quedan %s de ley"},
	{"trouble", "does not do what is desired: %s", "no hace lo que se pide: %s"},
	{"expired", "what it runs was good until %s", "lo que tiene valía hasta %s"},
	{"lacks", "lacks %s", "le falta %s"},
	{"ends", "certificate %s ends in %s", "el certificado %s vence en %s"},
	{"copy", "its copy stands still: %s", "su copia está detenida: %s"},
	{"waits", "waits to be enrolled: %s", "espera inscripción: %s"},
}

func (c concern) rank() int {
	return slices.IndexFunc(phrases, func(p struct{ code, en, es string }) bool { return p.code == c.Code })
}

func (c concern) say(lang string) string {
	p := phrases[c.rank()]
	if lang == "es" {
		return fmt.Sprintf(p.es, c.Args...)
	}
	return fmt.Sprintf(p.en, c.Args...)
}

// row is a branch with what is to be known of it, the worst first.
type row struct {
	*branch
	Concerns []concern
}

func (r *row) level() int {
	if len(r.Concerns) == 0 {
		return fine
	}
	return r.Concerns[0].Level
}

// noDeadline is behind every other.
var noDeadline = time.Unix(1<<40, 0)

// deadline is the next one of the law, noDeadline where nothing is owed.
func (r *row) deadline() time.Time {
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

// rows are the branches, the worst first; of equals, whose time by law ends first.
func (s *survey) rows() []*row {
	list := make([]*row, 0, len(s.Branches))
	for _, b := range s.Branches {
		list = append(list, &row{b, b.concerns(s.At, s.desired(b.group()))})
	}
	slices.SortStableFunc(list, func(a, b *row) int {
		rank := func(r *row) int {
			if len(r.Concerns) == 0 {
				return len(phrases)
			}
			return r.Concerns[0].rank()
		}
		return cmp.Or(b.level()-a.level(), rank(a)-rank(b), a.deadline().Compare(b.deadline()), strings.Compare(a.Name, b.Name))
	})
	return list
}

// concerns are all that is to be known of a branch.
func (b *branch) concerns(now time.Time, desired *version) (list []concern) {
	add := func(level int, code string, args ...any) { list = append(list, concern{level, code, args}) }
	if b.Fault != "" {
		add(bad, "forged", b.Fault)
	}
	if b.Stranger != nil && b.Former > 0 {
		add(bad, "former", b.Former)
	} else if b.Stranger != nil {
		add(warning, "stranger", fingerprint(b.Stranger.Key))
	}
	switch silence := now.Sub(b.Seen); {
	case b.Seen.IsZero():
		add(bad, "never")
	case silence > lostAfter:
		add(bad, "lost", span(silence))
	case silence > silentAfter:
		add(warning, "silent", span(silence))
	}
	if s := b.Status; s != nil {
		if b.Enrolment == nil {
			add(warning, "waits", fingerprint(s.Key))
		}
		b.selling(now, add)
		b.running(now, desired, add)
	}
	slices.SortStableFunc(list, func(a, b concern) int { return cmp.Or(b.Level-a.Level, a.rank()-b.rank()) })
	return list
}

// selling: who cannot sell, and who is in contingency and how long still inside the law.
func (b *branch) selling(now time.Time, add func(int, string, ...any)) {
	s := b.Status
	if s.Replaced {
		add(bad, "replaced")
	} else if !s.Ready {
		add(bad, "closed", cmp.Or(strings.Join(s.NotReady, "; "), "it does not say why"))
	}
	law := func(deadline time.Time) int {
		if !deadline.IsZero() && deadline.Sub(now) < lawSoon {
			return bad
		}
		return warning
	}
	left := func(deadline time.Time) string {
		if deadline.IsZero() {
			return "–"
		}
		return span(deadline.Sub(now))
	}
	switch c := s.Contingency; {
	case c != nil && !c.Deadline.IsZero() && now.After(c.Deadline):
		add(bad, "late", span(now.Sub(c.Deadline)))
	case c != nil:
		add(law(c.Deadline), "contingency", span(now.Sub(c.Since)), left(c.Deadline))
	case !s.Waiting.Deadline.IsZero() && now.After(s.Waiting.Deadline):
		add(bad, "late", span(now.Sub(s.Waiting.Deadline)))
	case s.Waiting.Documents > 0 && law(s.Waiting.Deadline) == bad:
		add(bad, "owing", s.Waiting.Documents, left(s.Waiting.Deadline))
	}
	for _, c := range s.Certificates {
		switch ends := c.Ends.Sub(now); {
		case ends <= 0:
			add(bad, "ended", c.Name)
		case ends < endsNow:
			add(bad, "ends", c.Name, span(ends))
		case ends < endsSoon:
			add(warning, "ends", c.Name, span(ends))
		}
	}
	if s.Copy != nil && s.Copy.Why != "" {
		add(warning, "copy", s.Copy.Why)
	}
}

// running: who lacks what it shall run.
func (b *branch) running(now time.Time, desired *version, add func(int, string, ...any)) {
	s := b.Status
	if s.Desired.Trouble != "" {
		add(warning, "trouble", s.Desired.Trouble)
	}
	if !s.Desired.Expires.IsZero() && now.After(s.Desired.Expires) {
		add(warning, "expired", local(s.Desired.Expires))
	}
	if r := s.Rollout; r != nil {
		switch r.Stage {
		case wire.StageReturned:
			add(bad, "returned", r.Name, r.Reason)
		case wire.StageRefused:
			add(bad, "refused", r.Name, r.Reason)
		}
	}
	if desired == nil {
		return
	}
	since := desired.Issued
	if r := desired.Rollout; r != nil && r.NotBefore.After(since) {
		since = r.NotBefore
	}
	if now.Sub(since) < takesWithin {
		return
	}
	for _, name := range b.lacks(now, desired) {
		add(warning, "lacks", name)
	}
}

// lacks are the rules that a branch shall run and does not have; none where it said that it did not take them.
func (b *branch) lacks(now time.Time, desired *version) (names []string) {
	wanted := desired.Live
	if r := desired.Rollout; r != nil && r.Takes(b.Name, now) {
		wanted = r.State.Over(desired.Live)
	}
	if r := b.Status.Rollout; r != nil && r.Stage.Failed() {
		return nil
	}
	for _, w := range wanted.Rules {
		if !slices.ContainsFunc(b.Status.Rules, func(r wire.Running) bool { return r.Digest == w.Digest }) {
			names = append(names, w.Name+" "+w.Version)
		}
	}
	return names
}

// fingerprint is what people compare of a box's key.
func fingerprint(key string) string {
	public, err := wire.DecodeKey(key)
	if err != nil {
		return "?"
	}
	return wire.Fingerprint(public)
}

// span writes a time as people read it: the two largest units at most.
func span(d time.Duration) string {
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
