package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/cmdtest/boxtest"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
)

// diagnose returns doctor's findings on a box, without those that depend on this machine's disk, and on MH's
// certificate, which a test box lacks.
func diagnose(b *boxtest.Box) (list []term.Finding) {
	d := &doctor{now: time.Now}
	d.examine(context.Background(), b.Config())
	for _, f := range d.findings {
		if f.Check != "mark" && f.Check != "disk" && f.Check != "certificate" {
			list = append(list, f)
		}
	}
	return list
}

func wrong(list []term.Finding) (bad []term.Finding) {
	for _, f := range list {
		if f.Status != statusOK {
			bad = append(bad, f)
		}
	}
	return bad
}

// Each broken box gets one line that is not ok. That line names the fault, its setting if there is one, and the remedy.
// TestStart_BrokenBoxes checks that dted uses the same words.
func TestDoctor_BrokenBoxes(t *testing.T) {
	mh := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(mh.Close)
	sound := boxtest.New(t, strings.TrimPrefix(mh.URL, "http://"))
	if bad := wrong(diagnose(sound)); bad != nil {
		t.Fatalf("of the sound box: %+v", bad)
	}
	if len(boxtest.Boxes) < 40 {
		t.Errorf("only %d broken boxes", len(boxtest.Boxes))
	}
	for _, c := range boxtest.Boxes {
		t.Run(c.Name, func(t *testing.T) {
			b := sound.Copy(t)
			c.Break(b)
			bad := wrong(diagnose(b))
			if len(bad) != 1 {
				t.Errorf("%d lines are not ok: %+v", len(bad), bad)
			}
			found := false
			for _, f := range bad {
				found = found || f.Status == c.Status && f.Check == c.Check && f.Setting == c.Setting &&
					strings.Contains(f.What, c.Says) && f.Do != ""
				if strings.Contains(f.What, "\n") {
					t.Errorf("one fault a line: %q", f.What)
				}
			}
			if !found {
				t.Errorf("not found: %+v", bad)
			}
		})
	}
}

// All faults are reported at once, one per line, in the order of the sample; monitoring reads the same as JSON.
func TestDoctor_ManyFaults(t *testing.T) {
	b := boxtest.New(t, "127.0.0.1:1")
	b.Set("slug = \"la-ceiba\"", "slug = \"\"")
	b.Set("nit = \"06141804941035\"", "nit = \"\"")
	b.Set("numero_documento = \"012345678\"", "numero_documento = \"\"")
	text, err := barebox.Output(t, func() error {
		return (&Command{JSON: true}).Run(context.Background(), &adminclient.Options{Config: b.Config()})
	})
	var list []term.Finding
	if err == nil || json.Unmarshal([]byte(text), &list) != nil {
		t.Fatalf("%s, %v", text, err)
	}
	var settings []string
	for _, f := range list {
		settings = append(settings, f.Status+" "+f.Setting)
	}
	if want := []string{"fail contingency.responsible.numero_documento", "fail issuer.slug",
		"fail issuer.nit"}; !reflect.DeepEqual(settings, want) {
		t.Errorf("got %v", settings)
	}
}
