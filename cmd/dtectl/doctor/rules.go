package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
)

// rulesSoon is how long before its end a rule without a successor is worth a warning, and the time in which coming
// rules are told.
const rulesSoon = 45 * 24 * time.Hour

// rules verifies every bundle of the folder and looks at the calendar of the shelf (before the first start: of the
// folder): what is valid today, what comes, what ends without a successor.
func (d *doctor) rules() {
	keys, err := d.cfg.Rules.Pinned()
	if err != nil {
		return // files says so
	}
	catalogue, bad := false, false
	paths, _ := filepath.Glob(filepath.Join(d.cfg.Rules.Folder, "*"+bundle.Extension))
	windows := make(map[string][]bundle.Window) // by what the rule is for
	for _, path := range paths {
		data, err := os.ReadFile(path)
		var b *bundle.Bundle
		if err == nil {
			b, err = keys.Read(data)
		}
		if err != nil {
			bad = true
			d.fail("rules", "have central IT push it again, or take the file away", "rule bundle %s: %v", path, err)
			continue
		}
		m := &b.Manifest
		if m.Kind == "catalogue" {
			catalogue = true
			continue
		}
		name := strings.TrimSpace(m.Kind + " " + m.Document)
		if w, ok := m.Validity[d.cfg.Ambiente]; ok {
			windows[name] = append(windows[name], w)
		} else if windows[name] == nil {
			windows[name] = []bundle.Window{} // it is for the other ambiente
		}
	}
	if d.held.windows != nil {
		windows = d.held.windows
	}
	for _, who := range slices.Sorted(maps.Keys(d.held.signers)) {
		d.ok("rules", "%d signed by %s", d.held.signers[who], who)
	}
	if len(windows) == 0 && bad {
		return
	}
	if len(windows) == 0 {
		d.fail("rules", "have central IT push the rules", "no bundle in %s", d.cfg.Rules.Folder)
		return
	}
	if d.held.windows == nil && !catalogue {
		d.fail("rules", "have central IT push the catalogues, or put their bundle into the rules folder", "%v",
			rulestore.ErrNoCatalogue)
	}
	calendar(&d.report, windows, d.branchNow())
}

// calendar judges what the bundles of each document are good for, today and soon.
func calendar(to *report, windows map[string][]bundle.Window, now time.Time) {
	today, soon := dte.Date(now), dte.Date(now.Add(rulesSoon))
	var live, coming []string
	for _, name := range slices.Sorted(maps.Keys(windows)) {
		covered := false
		for _, w := range windows[name] {
			covered = covered || w.From <= today && (w.Until == "" || today <= w.Until)
			if today < w.From && w.From <= soon {
				coming = append(coming, fmt.Sprintf("%s on %s", name, w.From))
			}
		}
		if !covered {
			to.fail("rules", "have central IT push one that is", "%s: none is valid today", name)
			continue
		}
		live = append(live, name)
		if end := coveredUntil(windows[name], today); end != "" && end <= soon {
			to.warn("rules", "have central IT push its successor before", "%s: ends on %s, and nothing follows", name,
				end)
		}
	}
	if len(live) > 0 {
		to.ok("rules", "valid today: %s", strings.Join(live, ", "))
	}
	if len(coming) > 0 {
		to.ok("rules", "coming: %s", strings.Join(coming, ", "))
	}
}

// coveredUntil is the last day without a gap from today on, "" when there is no end.
func coveredUntil(windows []bundle.Window, today string) string {
	windows = slices.SortedFunc(slices.Values(windows), func(a, b bundle.Window) int {
		return cmp.Compare(a.From,
			b.From)
	})
	end := today
	for _, w := range windows {
		if w.From > nextDay(end) {
			break
		}
		if w.Until == "" {
			return ""
		}
		end = max(end, w.Until)
	}
	return end
}

func nextDay(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, 1).Format(time.DateOnly)
}
