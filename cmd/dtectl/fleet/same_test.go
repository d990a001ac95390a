package fleet

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"dtegate/engine/fleet/fleetproto"
)

// Branches that refuse one roll-out in the same words stand on one line: how many, and the first of them. Who has
// another trouble too, or says it otherwise, stands for itself; the line leads to each of them.
func TestServe_Same(t *testing.T) {
	const many = 40
	w := newWorld(t, "centro")
	refuse := func(name, reason string) *box {
		b := w.add(name)
		b.status.Rollout = &fleetproto.Progress{Name: "r2", Stage: fleetproto.StageRefused, Since: w.now,
			Reason: reason}
		return b
	}
	for i := range many {
		refuse(fmt.Sprintf("igual-%02d", i), "cases: <b>2</b> of 20 cases differ").report()
	}
	refuse("otra", "bundle: no pinned key has signed it").report()
	for i := range sameAtLeast - 1 {
		refuse(fmt.Sprintf("par-%d", i), "golden: 3 differ").report()
	}
	for i := range sameAtLeast { // what is wrong in each branch is each branch's own
		b := w.add(fmt.Sprintf("llena-%d", i))
		b.status.Ready, b.status.NotReady = false, []string{"the disk is full"}
		b.report()
	}
	closed := refuse("cerrada", "cases: <b>2</b> of 20 cases differ")
	closed.status.Ready, closed.status.NotReady = false, []string{"the disk is full"}
	closed.report()
	other := refuse("otro-grupo", "cases: <b>2</b> of 20 cases differ")
	other.status.Group = "bodegas"
	other.report()
	w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
	_, server := served(t, w, "")
	for _, lang := range []string{"es", "en"} {
		_, page := get(t, server.URL+"/?lang="+lang)
		lines := regexp.MustCompile(`(?s)<li class=.*?</li>`).FindAllString(page, -1)
		// centro, the many, otra, the pair, the full ones, cerrada, otro-grupo
		if len(lines) != 1+1+1+(sameAtLeast-1)+sameAtLeast+1+1 {
			t.Errorf("%s: %d lines", lang, len(lines))
		}
		var line string
		for _, l := range lines {
			if strings.Contains(l, "<b>40 ") {
				line = l
			}
		}
		for name, want := range map[string]bool{"igual-00": true, fmt.Sprintf("igual-%02d", sameNamed-1): true,
			fmt.Sprintf("igual-%02d", sameNamed): false, "cerrada": false, "otro-grupo": false} {
			if strings.Contains(line, name) != want {
				t.Errorf("%s: the line names %s: %v\n%s", lang, name, !want, line)
			}
		}
		if strings.Contains(line, "<b>2</b>") {
			t.Error("what a box says is more than text")
		}
		m := regexp.MustCompile(`href="(\?lang=[^"]*q=[^"]*)"`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s: no link in %s", lang, line)
		}
		_, page = get(t, server.URL+"/"+html.UnescapeString(m[1]))
		if n := strings.Count(page, "<li class="); n != many+2 { // who is closed too, and who is of another group
			t.Errorf("%s: the link leads to %d branches", lang, n)
		}
	}
	// Nothing is lost behind the end of the page.
	for i := range shownAtMost {
		refuse(fmt.Sprintf("a-%03d", i), fmt.Sprintf("a %03d", i)).report()
	}
	w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
	_, server = served(t, w, "")
	_, page := get(t, server.URL+"/?lang=en")
	shown, hidden := 0, 0
	for _, l := range regexp.MustCompile(`(?s)<li class=.*?</li>`).FindAllString(page, -1) {
		n := 1
		if m := regexp.MustCompile(`<b>(\d+) branches</b>`).FindStringSubmatch(l); m != nil {
			_, _ = fmt.Sscan(m[1], &n)
		}
		shown += n
	}
	if m := regexp.MustCompile(`<p>(\d+) more:`).FindStringSubmatch(page); m != nil {
		_, _ = fmt.Sscan(m[1], &hidden)
	}
	if shown+hidden != len(w.boxes) || hidden == 0 {
		t.Errorf("%d branches are shown and %d told of, of %d", shown, hidden, len(w.boxes))
	}
}
