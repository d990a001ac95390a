package fleetproto

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/rules/signed"
)

var at = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

var super = Chain{Name: "super", Ambiente: "00"}

func signer(seed byte) (Signer, Key) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	id := fmt.Sprintf("k%d", seed)
	return Signer{ID: id, Private: private}, Key{ID: id, Public: private.Public().(ed25519.PublicKey)}
}

func desired() *Desired {
	digest := strings.Repeat("ab", 32)
	rule := Rule{File: digest, Digest: digest, Name: "dte01", Version: "2.0.1", Bundle: "document", Document: "01", From: "2026-12-01",
		Schema: 2}
	return &Desired{Group: "norte", Version: 1, Issued: at, Expires: at.Add(time.Hour), By: "ana",
		Live: State{Rules: []Rule{rule}},
		Rollout: &Rollout{Name: "r1", State: State{Settings: digest}, Pilots: []string{"centro"}, Share: 500,
			Opened: at}}
}

// A sealed object opens with the right key, for the right place, and with nothing else.
func TestDesired(t *testing.T) {
	director, key := signer(1)
	thief, other := signer(2)
	data, err := super.Seal(desired(), director)
	if err != nil {
		t.Fatal(err)
	}
	d, err := super.OpenDesired(data, []Key{other, key}, "norte", 1)
	if err != nil || d.Rollout.Share != 500 || !d.Expires.Equal(at.Add(time.Hour)) {
		t.Fatalf("%+v, %v", d, err)
	}
	forged, err := super.Seal(desired(), thief)
	if err != nil {
		t.Fatal(err)
	}
	act, err := super.Seal(&Act{Branch: "norte", Number: 1, At: at, What: ActLive}, director)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data    []byte
		group   string
		version int64
		want    error
	}{
		"another key":      {forged, "norte", 1, ErrSignature},
		"another group":    {data, "sur", 1, ErrOther},
		"another version":  {data, "norte", 2, ErrOther},
		"an act":           {act, "norte", 1, ErrFormat},
		"a cut one":        {data[:len(data)-1], "norte", 1, ErrFormat},
		"something behind": {append(bytes.Clone(data), '{'), "norte", 1, ErrFormat},
		"a longer signature": {bytes.Replace(data, []byte(`"signature":"`), []byte(`"signature":"AAAA`), 1), "norte", 1,
			ErrSignature},
		"empty": {nil, "norte", 1, ErrFormat},
	} {
		if _, err := super.OpenDesired(c.data, []Key{key}, c.group, c.version); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// No byte of a signed object can be changed, and no payload can be read in two ways.
func TestDesired_EveryByte(t *testing.T) {
	director, key := signer(1)
	closing := desired()
	closing.Closed = []ClosedPoint{{Branch: "sur", Establishment: "M001", Point: "P001", Year: 2026, Since: 1}}
	data, err := super.Seal(closing, director)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if d, err := super.OpenDesired(changed, []Key{key}, "norte", 1); err == nil {
			t.Fatalf("byte %d changed, and it opens: %+v", i, d)
		}
	}
	var e struct{ Payload string }
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{`"chain":"super"`, `"chain":"Super"`}, {`"head":`, `"Head":`},
		{`"kind":"desired"`, `"kind":"act"`}, {`"version":1`, `"Version":1`}, {`"version":1`,
			`"version":1,"version":2`}, {`"version":1`, `"version":1,"more":2`},
		{`"version":1`, `"version":null`}, {`"version":1`, `"version":1.5`}, {`"share":500`, `"share":10001`},
		{`"centro"`, `"Centro"`}, {`"centro"`, `"../centro"`}, {`"live"`, `"alive"`},
		{`"M001"`, `"M001 and more"`}, {`"P001"`, `"P001 and more"`}} {
		changed := bytes.Replace(payload, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, payload) {
			t.Fatalf("%s is not there", change[0])
		}
		if err := super.parse(changed, address{kind: "desired", owner: "norte", number: 1},
			new(Desired)); !errors.Is(err, ErrFormat) && !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", change[1], err)
		}
	}
}

func TestFollows(t *testing.T) {
	first, second := desired(), desired()
	second.Version, second.Previous = 2, Digest([]byte("first"))
	copied := *second
	other := &copied
	other.Mends = []Verified{{Version: 1, Digest: Digest([]byte("another"))}}
	later, self := *second, *second
	gap, itself := &later, &self
	gap.Version, itself.Mends = 3, []Verified{{Version: 2, Digest: Digest([]byte("another"))}}
	for name, c := range map[string]struct {
		d    *Desired
		last Verified
		want error
		mend bool
	}{
		"the first":           {first, Verified{}, nil, false},
		"the second":          {second, Verified{1, Digest([]byte("first"))}, nil, false},
		"a gap":               {second, Verified{}, ErrOther, false},
		"again":               {first, Verified{1, Digest([]byte("first"))}, ErrOther, false},
		"behind another past": {second, Verified{1, Digest([]byte("another"))}, ErrOther, false},
		"which it mends":      {other, Verified{1, Digest([]byte("another"))}, ErrOther, true},
		"mends none of later": {other, Verified{2, Digest([]byte("another"))}, ErrOther, false},
		"of the same past":    {gap, Verified{1, Digest([]byte("first"))}, ErrOther, false},
		"mends itself":        {itself, Verified{2, Digest([]byte("another"))}, ErrOther, false},
	} {
		if err := c.d.Follows(c.last); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) ||
			c.d.Mended(c.last) != c.mend {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChecks: what contradicts itself is neither signed nor, if somebody has signed it, read.
func TestChecks(t *testing.T) {
	director, key := signer(1)
	digest := Digest([]byte("x"))
	second := func(alter func(*Desired)) *Desired {
		d := desired()
		d.Version, d.Previous = 2, digest
		alter(d)
		return d
	}
	rule := func(version, from string, alter func(*Rule)) Rule {
		r := desired().Live.Rules[0]
		r.Version, r.From = version, from
		alter(&r)
		return r
	}
	same := func(*Rule) {}
	beside := func(others ...Rule) *Desired {
		return second(func(d *Desired) { d.Live.Rules = append(d.Live.Rules, others...) })
	}
	coming := func(others ...Rule) *Desired {
		return second(func(d *Desired) { d.Rollout.State.Rules = others })
	}
	for name, c := range map[string]struct {
		object Signed
		fine   bool
	}{
		"the second version":         {second(func(*Desired) {}), true},
		"one without a roll-out":     {second(func(d *Desired) { d.Rollout = nil }), true},
		"without a past":             {second(func(d *Desired) { d.Previous = "" }), false},
		"the first, with a past":     {second(func(d *Desired) { d.Version = 1 }), false},
		"mends the first":            {second(func(d *Desired) { d.Mends = []Verified{{1, digest}} }), true},
		"mends itself":               {second(func(d *Desired) { d.Mends = []Verified{{1, digest}, {2, digest}} }), false},
		"ends as it begins":          {second(func(d *Desired) { d.Expires = d.Issued }), false},
		"begins in 1999":             {second(func(d *Desired) { d.Issued = d.Issued.AddDate(-27, 0, 0) }), false},
		"ends in 2201":               {second(func(d *Desired) { d.Expires = d.Expires.AddDate(175, 0, 0) }), false},
		"a later law":                {beside(rule("3.0.0", "2027-01-01", same)), true},
		"an earlier law":             {beside(rule("1.0.0", "2026-11-01", same)), true},
		"one day, two versions":      {beside(rule("3.0.0", "2026-12-01", same)), false},
		"a higher one begins before": {beside(rule("3.0.0", "2026-11-01", same)), false},
		"of another generation":      {beside(rule("3.0.0", "2026-11-01", func(r *Rule) { r.Schema = 3 })), true},
		"of another document":        {beside(rule("3.0.0", "2026-11-01", func(r *Rule) { r.Document = "03" })), true},
		"of another kind":            {beside(rule("3.0.0", "2026-11-01", func(r *Rule) { r.Bundle = "event" })), true},
		"in a roll-out, a higher one begins before": {coming(rule("2.0.1", "2026-12-01", same),
			rule("3.0.0", "2026-11-01", same)), false},
		"in a roll-out, a later law": {coming(rule("2.0.1", "2026-12-01", same), rule("3.0.0", "2027-01-01", same)), true},
		"an enrolment":               {&Enrolment{Branch: "centro", Epoch: 3, Key: EncodeKey(key.Public), At: at, By: "ana"}, true},
		"an enrolment again": {&Enrolment{Branch: "centro", Epoch: 3, Key: EncodeKey(key.Public), At: at, By: "ana",
			Highest: 3}, true},
		"above the highest": {&Enrolment{Branch: "centro", Epoch: 3, Key: EncodeKey(key.Public), At: at, By: "ana",
			Highest: 2}, false},
		"a short key": {&Enrolment{Branch: "centro", Epoch: 3, Key: EncodeKey(key.Public[:31]), At: at, By: "ana"}, false},
		"a key in other letters": {&Enrolment{Branch: "centro", Epoch: 3, Key: "?" + EncodeKey(key.Public)[1:], At: at,
			By: "ana"}, false},
	} {
		if _, err := super.Seal(c.object, director); (err == nil) != c.fine {
			t.Errorf("%s is signed: %v", name, err)
		}
		head, address := c.object.at()
		*head = Head{Kind: address.kind, Chain: super.Name, Ambiente: super.Ambiente}
		payload, err := json.Marshal(c.object)
		if err != nil {
			t.Fatal(err)
		}
		into := reflect.New(reflect.TypeOf(c.object).Elem()).Interface().(Signed)
		if err := super.parse(payload, address, into); (err == nil) != c.fine {
			t.Errorf("%s is read: %v", name, err)
		}
	}
	piece, err := super.SealPiece(Piece{Branch: "centro", Epoch: 1, First: 1, Number: 2, File: "0000000001.copy"},
		[]byte("body"), director)
	if err != nil {
		t.Fatal(err)
	}
	for first, want := range map[int64]error{1: nil, 0: ErrOther, 2: ErrOther} {
		if _, _, err := super.OpenPiece(piece, "centro", 1, first, 2, Key{ID: director.ID, Public: key.Public}); !errors.Is(err,
			want) || err != nil && want == nil {
			t.Errorf("the part from 1 to 2 is opened from %d: %v", first, err)
		}
	}
	piece[len(piece)-1] ^= 1
	if _, _, err := super.OpenPiece(piece, "centro", 1, 1, 2, key); !errors.Is(err, ErrOther) {
		t.Errorf("an altered part: %v", err)
	}
	data, err := super.Seal(second(func(*Desired) {}), director)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := super.OpenDesired(data, []Key{key}, "norte", 2); err != nil || got.SignedBy != key.ID {
		t.Errorf("signed by %q, %v", got.SignedBy, err)
	}
}

// TestSeal: a long reason does not keep a box from reporting; any other object with one is not signed. What somebody else
// signed, or two have signed, does not open, and nothing of it is returned.
func TestSeal(t *testing.T) {
	director, key := signer(1)
	thief, _ := signer(2)
	long := strings.Repeat("x", maxText+1)
	for name, c := range map[string]struct {
		object func(reason string) Signed
		cut    bool
		open   func(data []byte) (any, bool, error) // whether something was returned
	}{
		"status": {func(reason string) Signed {
			return &Status{Branch: "centro", Group: "norte", Epoch: 1, Key: EncodeKey(key.Public), Sequence: 1, At: at,
				Desired: Reached{Trouble: reason}}
		}, true, func(data []byte) (any, bool, error) {
			s, err := super.OpenStatus(data, "centro", 1, key)
			return s, s != nil, err
		}},
		"act": {func(reason string) Signed {
			return &Act{Branch: "centro", Number: 1, At: at, What: ActRefused, Reason: reason}
		}, true, func(data []byte) (any, bool, error) {
			a, err := super.OpenAct(data, "centro", 1, key)
			return a, a != nil, err
		}},
		"enrolment": {func(reason string) Signed {
			return &Enrolment{Branch: "centro", Epoch: 1, Key: EncodeKey(key.Public), At: at, By: "ana" + reason}
		}, false, func(data []byte) (any, bool, error) {
			e, err := super.OpenEnrolment(data, []Key{key}, "centro", 1)
			return e, e != nil, err
		}},
	} {
		if data, err := super.Seal(c.object(long), director); (err == nil) != c.cut {
			t.Errorf("%s with a long reason: %v", name, err)
		} else if _, _, bad := c.open(data); err == nil && bad != nil {
			t.Errorf("%s with a long reason, opened: %v", name, bad)
		}
		data, err := super.Seal(c.object(""), director)
		if err != nil {
			t.Fatal(err)
		}
		if _, some, err := c.open(data); err != nil || !some {
			t.Errorf("%s: %v", name, err)
		}
		forged, err := super.Seal(c.object(""), thief)
		if err != nil {
			t.Fatal(err)
		}
		var e signed.Envelope
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		one := signed.Signature{Protected: e.Protected, Signature: e.Signature}
		twice, err := json.Marshal(signed.Envelope{Payload: e.Payload, Signatures: []signed.Signature{one, one}})
		if err != nil {
			t.Fatal(err)
		}
		for what, wrong := range map[string][]byte{"forged": forged, "signed twice": twice} {
			if got, some, err := c.open(wrong); some || !errors.Is(err, ErrSignature) {
				t.Errorf("%s, %s: %+v, %v", name, what, got, err)
			}
		}
	}
	if d, err := super.ReadDesired([]byte("x"), "norte", 1); d != nil || !errors.Is(err, ErrFormat) {
		t.Errorf("what is no version is read: %v, %v", d, err)
	}
	data, err := super.Seal(desired(), thief)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := super.ReadDesired(data, "sur", 1); d != nil || !errors.Is(err, ErrOther) {
		t.Errorf("another group's version is read: %v, %v", d, err)
	}
}

// TestChain_Objects: no object of another chain, of the other ambiente or of another kind opens, whoever signed it.
// Every signed type is here: the test finds the types by their methods.
func TestChain_Objects(t *testing.T) {
	box, key := signer(1)
	body := []byte("bytes")
	seal := map[string]func(Chain) ([]byte, error){
		"Desired": func(c Chain) ([]byte, error) { return c.Seal(desired(), box) },
		"Enrolment": func(c Chain) ([]byte, error) {
			return c.Seal(&Enrolment{Branch: "centro", Epoch: 1, Key: EncodeKey(key.Public), At: at, By: "ana"},
				box)
		},
		"Status": func(c Chain) ([]byte, error) {
			return c.Seal(&Status{Branch: "centro", Group: "norte", Epoch: 1, Key: EncodeKey(key.Public),
				Sequence: 1, At: at}, box)
		},
		"Act": func(c Chain) ([]byte, error) {
			return c.Seal(&Act{Branch: "centro", Epoch: 1, Number: 1, At: at, What: ActLive}, box)
		},
		"Piece": func(c Chain) ([]byte, error) {
			return c.SealPiece(Piece{Branch: "centro", Epoch: 1, Number: 1, File: "0000000001.copy"}, body, box)
		},
		"WholeCopy": func(c Chain) ([]byte, error) {
			return c.Seal(&WholeCopy{Branch: "centro", Epoch: 1, Piece: 1, At: at}, box)
		},
	}
	open := map[string]func(Chain, []byte) error{
		"Desired": func(c Chain, b []byte) error { _, err := c.OpenDesired(b, []Key{key}, "norte", 1); return err },
		"Enrolment": func(c Chain, b []byte) error {
			_, err := c.OpenEnrolment(b, []Key{key}, "centro",
				1)
			return err
		},
		"Status":    func(c Chain, b []byte) error { _, err := c.OpenStatus(b, "centro", 1, key); return err },
		"Act":       func(c Chain, b []byte) error { _, err := c.OpenAct(b, "centro", 1, key); return err },
		"Piece":     func(c Chain, b []byte) error { _, _, err := c.OpenPiece(b, "centro", 1, 0, 1, key); return err },
		"WholeCopy": func(c Chain, b []byte) error { _, err := c.OpenWholeCopy(b, "centro", 1, key); return err },
	}
	for i := range reflect.TypeFor[Chain]().NumMethod() {
		name, sealed := strings.CutPrefix(reflect.TypeFor[Chain]().Method(i).Name, "Open")
		if sealed && (seal[name] == nil || open[name] == nil) {
			t.Errorf("Chain.Open%s is not tried here", name)
		}
	}
	chains := []Chain{super, {Name: "super", Ambiente: "01"}, {Name: "mercado", Ambiente: "00"}}
	for kind, write := range seal {
		for _, of := range chains {
			data, err := write(of)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			for reader, read := range open {
				for _, in := range chains {
					if err := read(in, data); (err == nil) != (reader == kind && in == of) {
						t.Errorf("%s of %v opens as %s of %v: %v", kind, of, reader, in, err)
					}
				}
			}
		}
		for _, of := range []Chain{{}, {Name: "super"}, {Name: "Super", Ambiente: "00"}, {Name: "super",
			Ambiente: "02"}} {
			if _, err := write(of); !errors.Is(err, ErrFormat) {
				t.Errorf("%s of %v is written: %v", kind, of, err)
			}
		}
	}
}

// A director's keys count from the key that signed last.
func TestStillTrusted(t *testing.T) {
	_, a := signer(1)
	_, b := signer(2)
	for id, want := range map[string]int{"": 2, "unknown": 2, a.ID: 2, b.ID: 1} {
		if got := StillTrusted([]Key{a, b}, id); len(got) != want || !got[len(got)-1].Public.Equal(b.Public) {
			t.Errorf("%q: %v", id, got)
		}
	}
}

// A share covers that part of the boxes, a wider ring contains the narrower ring, and two roll-outs begin with
// different boxes.
func TestRollout_Ring(t *testing.T) {
	const boxes = 5000
	narrow, wide, other := Rollout{Name: "r1", Share: 500}, Rollout{Name: "r1", Share: 2500}, Rollout{Name: "r2",
		Share: 500}
	var n, w, both int
	for i := range boxes {
		branch := fmt.Sprintf("sucursal-%d", i)
		if narrow.InRing(branch) {
			n++
			if !wide.InRing(branch) {
				t.Errorf("%s is in the narrow ring alone", branch)
			}
			if other.InRing(branch) {
				both++
			}
		}
		if wide.InRing(branch) {
			w++
		}
	}
	if math.Abs(float64(n)-250) > 60 || math.Abs(float64(w)-1250) > 120 || both > 30 {
		t.Errorf("%d in a ring of 5 %%, %d in one of 25 %%, %d in both rings of 5 %%", n, w, both)
	}
	if (&Rollout{Name: "r1", Share: 0}).InRing("a") || !(&Rollout{Name: "r1", Share: Whole}).InRing("a") {
		t.Error("nobody and everybody")
	}
	// The places are part of the format: a box and the centre, and two versions of them, must agree on them.
	if p, q := place("centro", "r1"), place("centro", "r2"); p != 4071 || q != 4541 {
		t.Errorf("places %d, %d", p, q)
	}
	if (&Rollout{Name: "r1", Share: 4071}).InRing("centro") || !(&Rollout{Name: "r1", Share: 4072}).InRing("centro") {
		t.Error("a share covers the places below it")
	}
}

func TestRollout_Takes(t *testing.T) {
	r := Rollout{Name: "r1", Pilots: []string{"centro"}, NotBefore: at}
	held := r
	held.Held = true
	for name, c := range map[string]struct {
		r      Rollout
		branch string
		at     time.Time
		want   bool
	}{
		"a pilot": {r, "centro", at, true}, "too early": {r, "centro", at.Add(-1), false}, "another": {r, "norte", at,
			false}, "held": {held, "centro", at, false},
	} {
		if got := c.r.Takes(c.branch, c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestState_Over(t *testing.T) {
	rule := func(document, version string, schema int, from string) Rule {
		return Rule{Bundle: "document", Document: document, Version: version, Schema: schema, From: from}
	}
	below := State{Rules: []Rule{rule("01", "1.0.0", 1, "2026-01-01"), rule("01", "2.0.0", 2, "2026-01-01"),
		rule("03", "1.0.0", 3, "2026-01-01"), rule("01", "2.1.0", 2, "2027-01-01"), rule("01", "2.2.0", 2, "2027-03-01")},
		Settings: "s"}
	for _, c := range []struct {
		version, from string
		stay          []int // of below
	}{
		{"2.0.1", "2026-01-01", []int{0, 2, 3, 4}},    // a correction of today's
		{"2.0.1", "2026-11-01", []int{0, 1, 2, 3, 4}}, // from a later day
		{"2.1.1", "2027-01-01", []int{0, 1, 2, 4}},    // a correction of the law
		{"2.1.1", "2027-02-01", []int{0, 1, 2, 3, 4}}, // after it
		{"2.1.1", "2026-12-15", []int{0, 1, 2, 4}},    // the law advances
		{"2.3.0", "2026-01-01", []int{0, 2}},          // a version above the laws'
		{"2.1.1", "2027-04-01", []int{0, 1, 2, 3}},    // below one that begins earlier
	} {
		want := State{Rules: []Rule{rule("01", c.version, 2, c.from)}, Settings: "s"}
		for _, i := range c.stay {
			want.Rules = append(want.Rules, below.Rules[i])
		}
		got := State{Rules: want.Rules[:1]}.Over(below)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s from %s: %+v", c.version, c.from, got)
		}
		if err := (&Desired{Version: 1, Expires: at, Live: got}).check(); err != nil {
			t.Errorf("%s from %s: %v", c.version, c.from, err)
		}
	}
	for day, want := range map[string]int{"2026-11-01": 4, "2027-01-01": 3, "2027-04-01": 2} {
		if got := below.On(day); len(got) != want {
			t.Errorf("%s: %v", day, got)
		}
	}
}

func TestStatus(t *testing.T) {
	box, key := signer(3)
	thief, other := signer(4)
	s := Status{Branch: "centro", Group: "norte", Epoch: 2, Key: EncodeKey(key.Public), Sequence: 1, At: at,
		Ready: true}
	data, err := super.Seal(&s, box)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := super.OpenStatus(data, "centro", 2, key); err != nil {
		t.Error(err)
	}
	if got, err := super.OpenStatus(data, "centro", 2); err != nil || got.Key != EncodeKey(key.Public) {
		t.Errorf("a box that is not enrolled: %v, %v", got, err)
	}
	if _, err := super.OpenStatus(data, "centro", 2, other); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
	if _, err := super.OpenStatus(data, "oriente", 2, key); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	for text, branch := range map[string]string{"?": "centro", string(data): "oriente"} {
		want := map[bool]error{true: ErrFormat, false: ErrOther}[text == "?"]
		if got, err := super.OpenStatus([]byte(text), branch, 2); !errors.Is(err, want) || got != nil {
			t.Errorf("without an enrolled box: %v, %v", got, err)
		}
	}
	forged, err := super.Seal(&s, thief) // names a key that it does not hold
	if err != nil {
		t.Fatal(err)
	}
	if _, err := super.OpenStatus(forged, "centro", 2); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
}

func TestEnrolmentAndAct(t *testing.T) {
	director, key := signer(1)
	box, boxKey := signer(3)
	data, err := super.Seal(&Enrolment{Branch: "centro", Epoch: 2, Key: EncodeKey(boxKey.Public), At: at,
		By: "ana", Points: []Point{{"M001", "P001"}}}, director)
	if err != nil {
		t.Fatal(err)
	}
	e, err := super.OpenEnrolment(data, []Key{key}, "centro", 2)
	if err != nil || !e.BoxKeyOf().Public.Equal(boxKey.Public) {
		t.Fatal(e, err)
	}
	if _, err := super.OpenEnrolment(data, []Key{key}, "centro", 1); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	if _, err := super.OpenEnrolment(data, []Key{boxKey}, "centro", 2); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
	act, err := super.Seal(&Act{Branch: "centro", Epoch: 2, Number: 7, At: at, What: ActRefused, Reason: "casos"},
		box)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := super.OpenAct(act, "centro", 7, e.BoxKeyOf()); err != nil {
		t.Error(err)
	}
	if _, err := super.OpenAct(act, "centro", 8, e.BoxKeyOf()); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	if _, err := super.Seal(&Act{Branch: "centro", Number: 7, At: at, What: "sold"}, box); !errors.Is(err,
		ErrFormat) {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	data, err := EncodeSettings(Settings{Closed: []string{"2026-12-25"},
		Payments: map[string]string{"EFECTIVO": "01"}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ParseSettings(data); err != nil || s.Payments["EFECTIVO"] != "01" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{`{}`, `{"kind":"settings","poll":"2m"}`, `{"kind":"settings","data":"/"}`,
		`{"kind":"settings","api":{"listen":":80"}}`,
		`{"kind":"settings","closed":["mañana"]}`, `{"kind":"settings","print_footer":"a\nb"}`,
		`{"kind":"settings","payment_codes":{"x":"1"}}`, `{"kind":"settings","Closed":["2026-12-25"]}`} {
		if _, err := ParseSettings([]byte(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestKeys(t *testing.T) {
	for got, want := range map[string]string{
		DesiredKey("norte", 12): "fleet/v1/desired/norte/000000000012.jws", BoxKey("centro",
			2): "fleet/v1/boxes/centro/2.jws", StatusKey("centro", 2): "fleet/v1/status/centro/2.jws",
		ActKey("centro", 3): "fleet/v1/acts/centro/000000000003.jws", SegmentKey("centro", 2,
			9): "copy/v1/centro/2/000000000009",
		PartKey("centro", 2, 3, 9): "copy/v1/centro/2/part/000000000003-000000000009",
		WholeKey("centro", 2):      "copy/v1/centro/2/whole.jws",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if b, epoch, ok := StatusOf(StatusKey("centro", 2)); !ok || b != "centro" || epoch != 2 {
		t.Error(b, epoch, ok)
	}
	for _, key := range []string{"fleet/v1/status/centro.jws", "fleet/v1/status/centro/02.jws",
		"fleet/v1/status/centro/-1.jws", "fleet/v1/status/../2.jws", "fleet/v1/acts/centro/2.jws"} {
		if _, _, ok := StatusOf(key); ok {
			t.Errorf("%s is a status", key)
		}
	}
	if n, ok := NumberOf(DesiredKey("norte", 12)); !ok || n != 12 {
		t.Error(n, ok)
	}
	for _, key := range []string{"fleet/v1/desired/norte/", "fleet/v1/desired/norte/000000000000.jws",
		"fleet/v1/desired/norte/-00000000001.jws", "fleet/v1/desired/norte/00000000001x.jws",
		"fleet/v1/desired/norte/000000000012"} {
		if n, ok := NumberOf(key); ok {
			t.Errorf("%s has the number %d", key, n)
		}
	}
	for _, name := range []string{"", "-a", "a-", "a--b", "A", "a/b", "..", "ñ", strings.Repeat("a", 64)} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// TestStatus_Bounds: every text and every number of a table in a status has a bound.
func TestStatus_Bounds(t *testing.T) {
	box, key := signer(1)
	many := make(map[string]uint64)
	for i := range 5_001 {
		many[strconv.Itoa(i)] = 1
	}
	for name, last := range map[string]map[string]uint64{"a number": {"00/01/M001/P001/2026": 1 << 60},
		"a text":       {strings.Repeat("x", maxText+1): 1},
		"a line break": {"a\nb": 1}, "rows": many} {
		s := Status{Branch: "centro", Group: "norte", Epoch: 1, Key: EncodeKey(key.Public), Sequence: 1, At: at,
			Last: last}
		if _, err := super.Seal(&s, box); err == nil {
			t.Errorf("%s without a bound is signed", name)
		}
	}
}
