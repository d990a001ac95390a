package record

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

var noon = time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)

// after returns a time some seconds after noon; 0 is no time.
func after(seconds int) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return noon.Add(time.Duration(seconds) * time.Second)
}

// TestFormSealed: MH has the last form that was sent before its seal.
func TestFormSealed(t *testing.T) {
	const n, c, c1, c2 = FormNormal, FormContingency, FormCorrection + "1", FormCorrection + "2"
	for _, test := range []struct {
		forms           []string
		sent, forwarded int
		corrected       []int // when the corrections were sent
		sealed          int
		want            string
	}{
		{[]string{n}, 0, 0, nil, 5, n}, {[]string{c}, 0, 9, nil, 5, c},
		{[]string{FormArchived}, 0, 0, nil, 0, FormArchived},
		{[]string{n, c}, 0, 0, nil, 5, c}, {[]string{n, c}, 1, 0, nil, 5, n}, {[]string{n, c}, 1, 10, nil, 5, n},
		{[]string{n, c}, 1, 10, nil, 8, c}, {[]string{n, c}, 1, 10, nil, 7, n}, {[]string{n, c}, 1, 10, nil, 0, c},
		{[]string{n, c}, 1, 0, nil, 0, n}, {[]string{c, c1}, 0, 10, []int{20}, 17, c},
		{[]string{c, c1}, 0, 10, []int{20}, 18, c1},
		{[]string{c, c1}, 0, 10, []int{0}, 90, c}, {[]string{c, c1}, 0, 10, nil, 90, c},
		{[]string{c, c1, c2}, 0, 10, []int{20, 30}, 27, c1}, {[]string{c, c1, c2}, 0, 10, []int{20, 30}, 28, c2},
		{[]string{n, c, c1}, 0, 10, []int{20}, 9, c},
	} {
		h := &Head{Sent: after(test.sent), Forwarded: after(test.forwarded)}
		for _, at := range test.corrected {
			h.Corrections = append(h.Corrections, Correction{Forwarded: after(at)})
		}
		if got := h.FormSealed(test.forms, after(test.sealed), 2*time.Second); got != test.want {
			t.Errorf("%+v: MH sealed %s", test, got)
		}
	}
	// MH's seals have whole seconds.
	h := &Head{Sent: noon, Forwarded: noon.Add(900 * time.Millisecond)}
	if got := h.FormSealed([]string{n, c}, noon, 0); got != c {
		t.Errorf("sealed in the second of its sending: %s", got)
	}
}

// TestForms: the stored forms and those that the head names, in the order in which they were made.
func TestForms(t *testing.T) {
	for _, test := range []struct {
		parts, form     string
		sent, forwarded int
		want            string
	}{
		{"facts normal", FormNormal, 0, 0, "normal"}, {"facts draws facts-1", FormNormal, 0, 0, "normal"},
		{"contingency normal", FormContingency, 0, 0, "normal contingency"},
		{"contingency", FormContingency, 1, 0, "normal contingency"}, {"contingency", FormContingency, 1, 2, "contingency"},
		{"contingency", FormContingency, 0, 0, "contingency"},
		{"correction-2 correction-10 contingency correction-1 normal", FormCorrection + "2", 0, 2,
			"normal contingency correction-1 correction-2 correction-10"},
		{"facts-3", FormCorrection + "3", 0, 2, "contingency correction-1 correction-2 correction-3"},
		{"archived correction-1", FormCorrection + "1", 0, 2, "contingency correction-1 archived"},
		{"correction-0 correction-x", FormNormal, 0, 0, "normal"},
	} {
		var parts []storage.Part
		for _, name := range strings.Fields(test.parts) {
			parts = append(parts, storage.Part{Name: name})
		}
		h := &Head{Form: test.form, Sent: after(test.sent), Forwarded: after(test.forwarded)}
		if got := strings.Join(h.Forms(parts), " "); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if got := FormsOf([]storage.Part{{Name: FormCorrection + "1"}, {Name: PartFacts}, {Name: FormContingency},
		{Name: FormNormal}}); len(got) != 3 || got[0].Name != FormNormal || got[1].Name != FormContingency {
		t.Errorf("%+v", got)
	}
	for form, want := range map[string]int{FormNormal: 0, "2": 0, FormCorrection + "12": 12} {
		if got := CorrectionNumber(form); got != want {
			t.Errorf("%s: %d", form, got)
		}
	}
	for form, want := range map[string]string{FormNormal: PartFacts, FormContingency: PartFacts,
		FormCorrection + "2": "facts-2"} {
		if got := (&Head{Form: form}).FactsPart(); got != want {
			t.Errorf("%s: %s", form, got)
		}
	}
	h := &Head{Corrections: []Correction{{Forwarded: noon}}}
	if !h.CorrectionSent(0).IsZero() || !h.CorrectionSent(1).Equal(noon) || !h.CorrectionSent(2).IsZero() {
		t.Error("a correction that does not exist was sent")
	}
}

// TestEffect: on every way through the states, what a document has taken from its origin depends only on where it is.
func TestEffect(t *testing.T) {
	states := []storage.State{0, Signed, Accepted, Rejected, Deferred, Invalidated, Reported}
	draws := []Draw{{Line: 1, Amount: 3 * dte.Scale}, {Line: LineCredited, Amount: 5 * dte.Scale}}
	origin := storage.Code{1}
	for _, how := range []bundle.Effect{bundle.Credits, bundle.TakesBack, bundle.Debits} {
		for _, from := range states {
			for _, to := range states {
				weight := func(s storage.State) (taken, active int64) {
					if s == 0 || s == Rejected || s == Invalidated {
						return 0, 0
					}
					if how != bundle.Debits {
						return 1, 1
					}
					if s == Accepted {
						return -1, 1
					}
					return 0, 1
				}
				want := make(map[uint32]int64)
				before, activeBefore := weight(from)
				now, active := weight(to)
				want[LineActive] = active - activeBefore
				for _, d := range draws {
					want[d.Line] = (now - before) * d.Amount
				}
				for _, c := range Effect(how, from, to, draws, origin) {
					if c.Value == 0 || c.Origin != origin {
						t.Errorf("%v from %d to %d: %+v", how, from, to, c)
					}
					want[c.Line] -= c.Value
				}
				for line, rest := range want {
					if rest != 0 {
						t.Errorf("%v from %d to %d: counter %d lacks %d", how, from, to, line, rest)
					}
				}
			}
		}
	}
}

// TestHead: what a document's record answers about its refusal, its seal and its days.
func TestHead(t *testing.T) {
	sealed, registered := &authority.Response{SelloRecibido: "S", DescripcionMsg: "no", CodigoMsg: "096"},
		&authority.Response{CodigoMsg: authority.CodeRegistered}
	for _, c := range []struct {
		h    Head
		want time.Time
	}{
		{Head{}, time.Time{}}, {Head{Refused: noon}, noon.Add(time.Hour)}, {Head{Refused: noon, Origin: "x"}, time.Time{}},
		{Head{Refused: noon, Response: sealed}, noon.Add(time.Hour)},
		{Head{Refused: noon, Response: registered}, time.Time{}},
	} {
		if got := c.h.CorrectableUntil(time.Hour); !got.Equal(c.want) {
			t.Errorf("%+v: correctable until %v", c.h, got)
		}
	}
	for state, want := range map[storage.State]string{Accepted: "S", Invalidated: "S", Rejected: ""} {
		if got := (&Head{Response: sealed}).Seal(state); got != want {
			t.Errorf("the seal in state %d is %q", state, got)
		}
	}
	if (&Head{}).Seal(Accepted) != "" || RefusalText(nil) != "" || RefusalText(sealed) != "no" ||
		AmbienteName("01") != "PROD" || AmbienteName("00") != "TEST" {
		t.Error("a document without an answer")
	}
	late := time.Date(2026, 11, 6, 5, 59, 0, 0, time.UTC) // still the 5th in El Salvador
	h := Head{Date: "2026-11-05", Invalidation: &Invalidation{At: late.AddDate(0, 0, -3)},
		Corrections: []Correction{{At: late.Add(time.Minute)}, {At: noon}, {At: late.AddDate(0, 1, 0)}}}
	if got := h.Days(); !slices.Equal(got, []uint32{20261105, 20261102, 20261106, 20261205}) {
		t.Errorf("days %v", got)
	}
	for i := range 2 * mostDays {
		h.Corrections = append(h.Corrections, Correction{At: noon.AddDate(1, 0, i)})
	}
	if got := h.Days(); len(got) != mostDays {
		t.Errorf("%d days", len(got))
	}
	for date, want := range map[string]uint32{"2026-11-05": 20261105, "2026-11-31": 0, "": 0} {
		if got := Day(date); got != want {
			t.Errorf("%s: %d", date, got)
		}
	}
	for jws, want := range map[string]string{"a.eyJ9.b": `{"}`, "a..b": "", "a.eyJ9": "!", "": "!", "a.=.b": "!"} {
		if got, err := Payload([]byte(jws)); string(got) != strings.Trim(want, "!") || (err != nil) != (want == "!") {
			t.Errorf("%q: %q, %v", jws, got, err)
		}
	}
	for seconds, want := range map[int]bool{0: false, -1: false, 1: true, 7199: true, 7200: false} {
		entry := storage.Entry{Due: &storage.Due{At: noon.Add(time.Duration(seconds) * time.Second)}}
		if PutOff(entry, noon) != want {
			t.Errorf("%d s: put off %v", seconds, !want)
		}
	}
}

// TestDelivery: which steps a document owes, when each is due, and how an attempt that failed puts it off.
func TestDelivery(t *testing.T) {
	for _, from := range []storage.State{0, Signed, Accepted, Rejected, Deferred, Invalidated, Reported} {
		for _, to := range []storage.State{Signed, Accepted, Rejected, Deferred, Invalidated, Reported} {
			for i := range 8 {
				h := &Head{}
				if i&1 != 0 {
					h.Mail = "a@b"
				}
				mail, archive := i&2 != 0, i&4 != 0
				first := (to == Accepted || to == Invalidated) && from != Accepted && from != Invalidated
				due := h.OweDelivery(from, to, mail, archive, noon.Add(time.Microsecond))
				mails, archives := first && mail && h.Mail != "", first && archive
				if got := h.Delivery; (got != nil) != (mails || archives) || got != nil && ((got.Mail != nil) != mails ||
					(got.Archive != nil) != archives) {
					t.Errorf("from %d to %d, %d: %+v", from, to, i, got)
				}
				if (due != nil) != (mails || archives) || due != nil && (due.Queue != QueueDeliver || !due.At.Equal(noon)) {
					t.Errorf("from %d to %d, %d: due %+v", from, to, i, due)
				}
			}
		}
	}
	again := &Head{Mail: "a@b", Delivery: &Delivery{Mail: &Step{Result: StepDone}}}
	if due := again.OweDelivery(Reported, Accepted, true, true, noon); due != nil || again.Delivery.Archive != nil {
		t.Errorf("a document with deliveries gets new ones: %+v", due)
	}
	at := func(seconds int) *Step { return &Step{Since: noon, Next: after(seconds)} }
	done, failed := &Step{Result: StepDone, Since: noon}, &Step{Result: StepFailed, Since: after(-5)}
	for _, c := range []struct {
		d    *Delivery
		want *storage.Due
	}{
		{nil, nil}, {&Delivery{}, nil}, {&Delivery{Mail: done, Archive: done}, nil},
		{&Delivery{Mail: at(9), Archive: at(5)}, &storage.Due{Queue: QueueDeliver, At: after(5)}},
		{&Delivery{Mail: at(5), Archive: at(9)}, &storage.Due{Queue: QueueDeliver, At: after(5)}},
		{&Delivery{Mail: at(0), Archive: at(9)}, &storage.Due{Queue: QueueDeliver, At: after(9)}},
		{&Delivery{Mail: failed, Archive: at(9)}, &storage.Due{Queue: QueueDeliver, At: after(9)}},
		{&Delivery{Mail: failed, Archive: done}, &storage.Due{Queue: QueueUndelivered, At: after(-5)}},
		{&Delivery{Mail: &Step{Result: StepForgotten}}, nil},
	} {
		if got := c.d.Due(); (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v: due %+v", c.d, got)
		}
		h := &Head{Delivery: c.d}
		if owes := h.OweDelivery(Accepted, Accepted, true, true, noon); (owes == nil) != (c.want == nil) {
			t.Errorf("%+v: owes %+v", c.d, owes)
		}
	}
	for since, want := range map[time.Duration]time.Duration{-time.Hour: time.Minute, 0: time.Minute,
		59 * time.Second: time.Minute, time.Hour: time.Hour, 6 * time.Hour: 6 * time.Hour, 48 * time.Hour: 6 * time.Hour} {
		s := &Step{Since: noon}
		now := noon.Add(since)
		if s.Postpone(now, errors.New("busy"), true); s.Next.Sub(now) != want || s.Error != "busy" || !s.Away ||
			!s.Pending() {
			t.Errorf("%v after the beginning: %+v", since, s)
		}
		if s.End(StepFailed, errors.New("no")); s.Error != "no" || s.Away || !s.Next.IsZero() || !s.Failed() ||
			s.Pending() {
			t.Errorf("ended: %+v", s)
		}
		if s.End(StepDone, nil); s.Error != "" || s.Failed() || s.Pending() {
			t.Errorf("done: %+v", s)
		}
	}
	for _, c := range []struct {
		d    *Delivery
		want bool
	}{{nil, false}, {&Delivery{}, false}, {&Delivery{Mail: done}, false}, {&Delivery{Archive: failed}, false},
		{&Delivery{Archive: done}, true}} {
		if (&Head{Delivery: c.d}).Archived() != c.want {
			t.Errorf("%+v: archived %v", c.d, !c.want)
		}
	}
	var never *Step
	var none *Invalidation
	if never.Pending() || never.Failed() || none.Pending() || (&Invalidation{Estado: EstadoProcessed}).Pending() {
		t.Error("what does not exist is pending")
	}
	event := &Invalidation{Estado: EstadoPending}
	if d := event.Doubted(); !d.Doubtful || event.Doubtful || !d.Pending() {
		t.Errorf("%+v of %+v", d, event)
	}
}

// TestMarks: the contingency form differs from the normal form in its marks alone.
func TestMarks(t *testing.T) {
	const normal = `{"a":1.50,"identificacion":{"x":1,"tipoModelo":1,"tipoOperacion":1,"tipoContingencia":null,` +
		`"motivoContin":null,"y":"ñ"},"b":[]}`
	marks := func(model, cause, motive string) string {
		return `{"a":1.5,"identificacion":{"x":1,"tipoModelo":` + model + `,"tipoOperacion":` + model +
			`,"tipoContingencia":` + cause + `,"motivoContin":` + motive + `,"y":"ñ"},"b":[]}`
	}
	for _, c := range []struct {
		marks []dte.Member
		want  string
	}{
		{NormalMarks, marks("1", "null", "null")}, {ContingencyMarks(2, "x"), marks("2", "2", "null")},
		{ContingencyMarks(5, "sin luz"), marks("2", "5", `"sin luz"`)},
	} {
		for _, name := range []string{"motivoContin", "motivoContigencia"} {
			got, err := ReplaceMarks([]byte(strings.Replace(normal, "motivoContin", name, 1)), c.marks)
			if err != nil || string(got) != strings.Replace(c.want, "motivoContin", name, 1) {
				t.Errorf("%s, %v", got, err)
			}
		}
	}
	if got, err := ReplaceMarks([]byte(`{`), NormalMarks); err == nil {
		t.Errorf("%s", got)
	}
}

// TestEmisor: what a point of sale adds to the issuer's data.
func TestEmisor(t *testing.T) {
	for _, c := range [][3]string{
		{`{}`, "M001", `{"codEstable":"M001","codPuntoVenta":"P002","tipoEstablecimiento":"02"}`},
		{`{}`, "S001", `{"codEstable":"S001","codPuntoVenta":"P002","tipoEstablecimiento":"01"}`},
		{`{}`, "B001", `{"codEstable":"B001","codPuntoVenta":"P002","tipoEstablecimiento":"04"}`},
		{`{}`, "P001", `{"codEstable":"P001","codPuntoVenta":"P002","tipoEstablecimiento":"07"}`},
		{`{}`, "", `{"codEstable":"","codPuntoVenta":"P002"}`},
		{`{"tipoEstablecimiento":"20","nit":"1"}`, "M001", `{"tipoEstablecimiento":"20","nit":"1","codEstable":"M001",` +
			`"codPuntoVenta":"P002","tipoDocumento":"36","numDocumento":"1"}`},
	} {
		facts, err := dte.Parse([]byte(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		p := Point{Establishment: c[1], PointOfSale: "P002"}
		if got := Emisor(Issuer{Facts: facts}, p).Append(nil); string(got) != c[2] {
			t.Errorf("%s at %s: %s", c[0], c[1], got)
		}
	}
	p := Point{Establishment: "S009", PointOfSale: "P009"}
	for number, want := range map[string]string{"DTE-01-M001P002-000000000000001": "M001 P002", "": "S009 P009",
		"DTE-01-M001P002-00000000000001": "S009 P009"} {
		if e, o := EstablishmentOf(&Head{ControlNumber: number}, p); e+" "+o != want {
			t.Errorf("%q: %s %s", number, e, o)
		}
	}
}

// TestReceiver: a receiver is found by each of its numbers, however they are written, and by a part of its name.
func TestReceiver(t *testing.T) {
	facts, err := dte.Parse([]byte(`{"receptor":{"nombre":"  María  ÑUÑEZ Güell",` +
		`"numDocumento":"0614-290780-112-3","nit":"06142907801123","nrc":"12 345-k"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := ReceiverOf(facts)
	if r.Name != "maria nunez guell" || !slices.Equal(r.Numbers, []string{"06142907801123", "12345K"}) {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]bool{"06142907801123": true, "0614-290780-112-3": true, "12345K": true,
		"0614290780112": false, "maria nuñez": true, "MARÍA": true, "ez  gue": true, "nunezguell": false,
		"pedro": false} {
		if r.Is(text) != want {
			t.Errorf("%q: is %v", text, !want)
		}
	}
	if r := ReceiverOf(dte.Null()); r.Name != "" || r.Numbers != nil {
		t.Errorf("nobody is %+v", r)
	}
	keys := make(map[[32]byte]bool)
	for _, point := range []int64{1, 2, 1 << 40} {
		for _, key := range []string{"", "a", "b", "\x00"} {
			keys[IdempotencyKey(point, key)] = true
		}
	}
	// The stored form of a key must never change.
	if k := IdempotencyKey(1, "a"); len(keys) != 12 || !bytes.HasPrefix(k[:], []byte{0x3b, 0x19, 0x6f}) {
		t.Errorf("%d keys, %x", len(keys), k)
	}
}
