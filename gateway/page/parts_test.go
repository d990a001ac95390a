package page

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"dtegate/engine/documents"
	"dtegate/engine/fleet"
)

// TestParts: small pieces of the pages, to the letter.
func TestParts(t *testing.T) {
	for want, h := range map[string]documents.Hour{
		"":                     {},
		"2 normal":             {Normal: 2},
		"2 normal, 1 rejected": {Normal: 2, Rejected: 1},
		"1,000 normal, 3 in contingency, 1 rejected": {Normal: 1000, Contingency: 3, Rejected: 1},
	} {
		if got := tally("en", h); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
	var b bytes.Buffer
	if err := detail("es", "EOF").Render(&b); err != nil || b.String() != `<details><summary>`+say("es", "detail")+
		`</summary><code lang="en">EOF</code></details>` {
		t.Errorf("%s %v", b.String(), err)
	}
	b.Reset()
	waiting := (&board{lang: "en", o: overviews()["normal"], Deadlines: []fact{{Level: "bad", Name: "event", Note: "13:41",
		Value: "in 2 h"}}}).waitingHTML()
	if err := waiting.Render(&b); err != nil || !strings.Contains(b.String(),
		"<small>13:41</small></th><td>in 2 h</td>") {
		t.Errorf("%s %v", b.String(), err)
	}
	o := overviews()["normal"]
	for want, asked := range map[string]time.Time{"asked 13:41": o.At.Add(-51 * time.Minute),
		"the centre has not answered yet": {}} {
		o.Chain = &Chain{Branch: "centro", Look: fleet.Look{Version: 7, Asked: asked}}
		if page := string(renderStatus("en", o)); !strings.Contains(page, want) ||
			strings.Contains(page, "Version 7") == asked.IsZero() {
			t.Errorf("asked %v: the page lacks %q", asked, want)
		}
	}
	for lang, name := range map[string]string{"es": "quiet", "en": "late"} {
		if page := string(renderStatus(lang, overviews()[name])); !strings.HasPrefix(page,
			"<!doctype html>\n<html lang=\""+lang+"\">") {
			t.Errorf("%s begins with %.60q", name, page)
		}
	}
}
