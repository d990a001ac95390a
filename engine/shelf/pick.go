package shelf

import (
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/vouch"
	"dtegate/rules/bundle"
)

// floor is the highest version of a bundle's generation that was ever in force here, "" for none. One that is to come
// does not keep a correction out that is for today.
func (s *state) floor(m *bundle.Manifest) (floor string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.items {
		last := s.today()
		if i.off != nil {
			last = dte.Date(i.off.At)
		}
		if i.counts() && i.ofGeneration(m) && i.From <= last && (floor == "" || bundle.Compare(i.Version, floor) > 0) {
			floor = i.Version
		}
	}
	return floor
}

// knowsVersion reports whether a bundle's version was let in before, by these bytes or others.
func (s *state) knowsVersion(m *bundle.Manifest) bool {
	return s.find(func(i *shelved) bool { return i.counts() && i.ofGeneration(m) && i.Version == m.Version }) != nil
}

// expired reports whether a bundle's own dates are over on a day.
func (i *shelved) expired(day string) bool { return i.Until != "" && i.Until < day }

// counts reports whether somebody vouches for what a record says: else one in a backup could keep every later version out.
func (i *shelved) counts() bool {
	return i.trouble == nil || i.trouble.Why == TroubleDamaged && i.word == vouch.Own
}

// computable lists what is on the shelf and may compute, in order.
func (s *state) computable() []*shelved {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(s.items), func(i *shelved) bool { return i.off != nil || i.trouble != nil })
}

// inForce is what a day picks of a document's bundles, nil when none has begun.
func inForce(list []*shelved, like *shelved, day string) (best *shelved) {
	for _, i := range list {
		if i.sameDocument(like) && i.From <= day && (best == nil || i.rank(best) > 0) {
			best = i
		}
	}
	return best
}

// wantedBundles are the bundles that this day, the one before it or a later one picks, and those of originals. Yesterday's: a sale may
// have read the clock just before midnight.
func (s *state) wantedBundles(list []*shelved) (wanted []*shelved) {
	day := s.o.Now()
	for _, i := range list {
		if inForce(list, i, dte.Date(day.AddDate(0, 0, -1))) == i || inForce(list, i, dte.Date(day)) == i || i.From > dte.Date(day) && inForce(list, i, i.From) == i ||
			ofOriginals(list, i, day) {
			wanted = append(wanted, i)
		}
	}
	return wanted
}

// longestReturn is how many years after its original a note or return may come, at most (MF2 p.27: two for some activities).
const longestReturn = 2

// ofOriginals tells of a bundle of notes or returns that it was the one of its generation on a day of the last two years: it computes
// what is given back today of an original of that day.
func ofOriginals(list []*shelved, i *shelved, now time.Time) bool {
	if i.Kind != "document" || record.Types[i.Document].Against == record.Nothing {
		return false
	}
	today := dte.Date(now)
	day := max(i.From, dte.Date(now.AddDate(-longestReturn, 0, 0)))
	goesOn := slices.ContainsFunc(list, func(o *shelved) bool {
		return o.sameGeneration(i) && (inForce(list, o, today) == o || o.From > today)
	})
	return goesOn && day <= today && (forEarlier(list, i) || !slices.ContainsFunc(list, func(o *shelved) bool {
		return o.sameGeneration(i) && o.From <= day && o.rank(i) > 0
	}))
}

// forEarlier tells of a bundle that it is there for originals of the time before its generation: another replaces it from its own first
// day on, which is the generation's first, and its own dates end before that one's. It is never in force.
func forEarlier(list []*shelved, i *shelved) bool {
	replaced := false
	for _, o := range list {
		switch {
		case !o.sameGeneration(i):
		case o.From < i.From:
			return false
		case o.From == i.From && o.rank(i) > 0 && i.Until != "" && (o.Until == "" || o.Until > i.Until):
			replaced = true
		}
	}
	return replaced
}

// namesOn is the day of whose catalogues a bundle takes the names of taxes: today, or of what is to come its first day, and of what
// was, its last one.
func namesOn(list []*shelved, i *shelved, today string) string {
	if i.From > today {
		return i.From
	}
	if begins, err := time.Parse(time.DateOnly, i.From); err == nil && forEarlier(list, i) {
		return begins.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	last := today
	for _, o := range list {
		if o.sameDocument(i) && o.rank(i) > 0 && o.From > i.From && o.From <= last {
			if begins, err := time.Parse(time.DateOnly, o.From); err == nil {
				last = begins.AddDate(0, 0, -1).Format(time.DateOnly)
			}
		}
	}
	return last
}

// lastGoodBefore is the last good bundle of the same generation: what goes on when i fails. nil when there is none.
func lastGoodBefore(list []*shelved, i *shelved) (best *shelved) {
	for _, o := range list {
		if o.sameGeneration(i) && o.From <= i.From && o.rank(i) < 0 && !forEarlier(list, o) && (best == nil || o.rank(best) > 0) {
			best = o
		}
	}
	return best
}
