package deploy_test

import (
	"time"

	"dtegate/cmd/dted/config"
)

// simulated is a branch of the normal week.
type simulated struct {
	id        string
	hours     *config.Branch // nil: its configuration names none; people keep the same hours except on Sunday
	router    bool           // a router that is probed
	night     bool           // its box stays on
	apart     bool           // it is scraped over another link than its WAN
	oneSwitch bool           // router and box go off together
	card      bool           // it has a second copy
	evening   bool           // it has one slow sale late in the evening

	started     time.Time // zero: off
	backup      time.Time
	read, scrub time.Time
	since       time.Time // in contingency
	ended       time.Time // of the last contingency
	oldest      time.Time
	seen        time.Time // its last status in the chain's store; zero: none
	counts      map[string]float64
	free        float64
}

// span is a time of the week: day 0 is Thursday.
type span struct {
	day        int
	from, to   time.Duration
	everywhere bool // at MH, not on the WAN
}

func hm(h, m int) time.Duration { return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute }

var (
	outages  = []span{{day: 4, from: hm(10, 20), to: hm(10, 32)}, {day: 5, from: hm(17, 0), to: hm(17, 25)}}
	slowDay  = span{day: 6, from: hm(8, 0), to: hm(20, 0), everywhere: true}
	slowBad  = []span{{day: 6, from: hm(10, 0), to: hm(12, 0)}, {day: 6, from: hm(15, 0), to: hm(15, 40)}}
	lateEnd  = span{day: 1, from: hm(19, 30), to: hm(20, 5)} // MH is away when the branches close, and returns at night
	update   = span{day: 7, from: hm(11, 0), to: hm(11, 5)}
	blocked  = span{day: 4, from: hm(9, 0), to: hm(9, 15)}
	oldToken = span{day: 2, from: hm(9, 30), to: hm(9, 40)}
)

func (s span) holds(t time.Time) bool {
	at := t.Sub(time.Unix(0, 0).UTC()) - time.Duration(s.day)*24*time.Hour
	return s.from <= at && at < s.to
}

func during(list []span, t time.Time) bool {
	for _, s := range list {
		if s.holds(t) {
			return true
		}
	}
	return false
}

// people reports whether somebody is in the store: from ten minutes late in the morning, until ten minutes later in the
// evening.
func (b *simulated) people(t time.Time) bool {
	hours := b.hours
	if hours == nil {
		if hours = shopHours(); t.Weekday() == time.Sunday {
			return false
		}
	}
	first, _, ok := hours.NextOpenings(t.Add(-10 * time.Minute))
	return ok && !t.Before(first.From.Add(10*time.Minute)) && t.Before(first.To.Add(10*time.Minute))
}

func (b *simulated) sample(w *week, t time.Time) {
	labels := `job="dted", instance="` + b.id + `", branch="` + b.id + `"`
	put := func(name, more string, v float64) { w.put(name+"{"+labels+more+"}", v) }
	unix := func(at time.Time) float64 {
		if at.IsZero() {
			return 0
		}
		return float64(at.Unix())
	}
	people, wan := b.people(t), !during(outages, t)
	on := b.night || people
	if b.router {
		answers := 0.0
		if wan && (on || !b.oneSwitch) {
			answers = 1
		}
		w.put(`probe_success{job="dte-router", instance="r`+b.id+`", branch="`+b.id+`"}`, answers)
	}
	switch {
	case !on:
		b.started = time.Time{}
	case b.started.IsZero(), update.holds(t) && b.started.Before(t.Add(-time.Hour)):
		b.start(t)
	}
	b.live(t, on, people, wan)
	if on && wan && !update.holds(t) {
		b.seen = t.Truncate(15 * time.Minute)
	}
	put("dte_chain_survey_timestamp_seconds", "", unix(t.Add(-time.Duration(max(0, t.Minute()-30))*time.Minute)))
	if !b.seen.IsZero() {
		put("dte_chain_branch_seen_timestamp_seconds", "", unix(b.seen))
		put("dte_chain_branch_refused_ratio", "", 0.05)
	}
	if !on || !wan && !b.apart || update.holds(t) {
		put("up", "", 0)
		return
	}
	put("up", "", 1)
	b.show(put, unix, t, people)
}

// start starts a new process: its counters begin at 0, and the store tells it of yesterday.
func (b *simulated) start(t time.Time) {
	b.started, b.counts, b.read = t, make(map[string]float64), time.Time{}
	if b.free == 0 {
		b.free, b.backup, b.scrub = 40e9, time.Unix(0, 0), time.Unix(1, 0)
	}
}

// live simulates the box between two samples.
func (b *simulated) live(t time.Time, on, people, wan bool) {
	if !on {
		return
	}
	up := t.Sub(b.started)
	if at := t.Sub(t.Truncate(24 * time.Hour)); b.night && at == hm(2, 0) || !b.night && up == 15*time.Minute &&
		t.Weekday() != time.Sunday {
		b.backup = t
	}
	if up == 10*time.Minute || up > 0 && up%(24*time.Hour) == 10*time.Minute {
		b.read = t
	}
	if up == 20*time.Minute || up > 0 && up%(24*time.Hour) == 20*time.Minute {
		b.scrub = t
	}
	b.free -= 100e6 / float64(24*time.Hour/weekStep)
	away := !wan || during(slowBad, t) || lateEnd.holds(t)
	switch {
	case away && people && b.since.IsZero():
		b.since, b.oldest = t, t
	case !away && !b.since.IsZero():
		b.since, b.ended = time.Time{}, t
	case !b.ended.IsZero() && t.Sub(b.ended) > 10*time.Minute:
		b.ended, b.oldest = time.Time{}, time.Time{}
	}
	add := func(name string, n float64) { b.counts[name] += n }
	add("requests", 1) // renewals, probes
	if lateEnd.holds(t) && t.Sub(b.since) >= 25*time.Minute && !b.night {
		b.ended = t // MH returns for a moment before the box is switched off
	}
	if !people {
		return
	}
	add("sales", 5)
	switch {
	case away:
		add("contingency", 5)
		add("503", 2) // a till that tries to invalidate
	case slowDay.holds(t):
		add("slow", 5)
	default:
		add("online", 5)
	}
	if at := t.Sub(t.Truncate(24 * time.Hour)); at == hm(11, 30) || at == hm(16, 40) {
		add("rejected", 1)
	}
	if at := t.Sub(t.Truncate(24 * time.Hour)); b.evening && at == hm(19, 55) {
		add("endless", 1)
	}
	if oldToken.holds(t) {
		add("token", 15)
	}
}
