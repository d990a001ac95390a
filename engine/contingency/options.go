package contingency

import (
	"cmp"
	"time"

	"dtegate/engine/seller"
)

// Options are the settings for life without MH. Zero values take the defaults.
type Options struct {
	// Responsible answers for the events; MH wants a name and a document (schema of the event).
	Responsible seller.Person
	// ProbeEvery is the first time between two probes of MH, default 2 s; it doubles up to ProbeMax, default 30 s.
	ProbeEvery, ProbeMax time.Duration
	// ProbeTimeout is how long a probe waits, default 4 s.
	ProbeTimeout time.Duration
	// Stable is how long MH must have answered before a period ends, default 2 s. It doubles with each period of the last
	// hour, up to StableMax, default 5 min: a link that flaps does not make a period a minute.
	Stable, StableMax time.Duration
	// ReportAfter is the time from the end of a period to its event, default 15 s. Trouble that returns before goes on with
	// the same period.
	ReportAfter time.Duration
	// LotSize is how many documents a lot holds, default and at most what the event's bundle says; LotPoll is how often MH is asked about
	// a lot, default 5 s; LotsInFlight how many MH works on at once, default 4; LotPatience how long MH may be at work on a
	// lot, or have lost it, before its documents are asked for one by one, default 15 min (MT1 §3.4: a lot takes three).
	LotSize      int
	LotPoll      time.Duration
	LotsInFlight int
	LotPatience  time.Duration
	// AwaitReport is how long after its end a contingency that needs a technical report waits with its event for the
	// operator's word that MH has the report, default 0: not at all. At most four hours less than the event's own limit.
	AwaitReport time.Duration
	// CorrectAfter is the time from MH's refusal of an event to the next one, default 1 min; it doubles, up to an hour.
	CorrectAfter time.Duration
	// Internet are addresses (host:port) one of which answers while the branch has Internet: they tell cause 3 from cause 1
	// (CAT-005). None: only a name or a route that is not found means cause 3.
	Internet []string
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		at *time.Duration
		is time.Duration
	}{{&o.ProbeEvery, 2 * time.Second}, {&o.ProbeMax, 30 * time.Second}, {&o.ProbeTimeout, 4 * time.Second}, {&o.Stable, 2 * time.Second},
		{&o.StableMax, 5 * time.Minute}, {&o.ReportAfter, 15 * time.Second}, {&o.LotPoll, 5 * time.Second},
		{&o.LotPatience, 15 * time.Minute}, {&o.CorrectAfter, time.Minute}} {
		*d.at = cmp.Or(*d.at, d.is)
	}
	o.LotsInFlight = cmp.Or(o.LotsInFlight, 4)
}
