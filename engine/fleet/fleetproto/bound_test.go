package fleetproto

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBound: each kind of value at its bound and just beyond it, as it is read and as bound cuts it for the signature.
func TestBound(t *testing.T) {
	type inner struct {
		Text string `json:"text" is:"code?"`
	}
	lines := func(n int) string { return strings.Repeat("ñ", n) }
	rows := func(n int) map[string]uint64 {
		m := make(map[string]uint64)
		for i := range n {
			m[fmt.Sprint(i)] = uint64(i)
		}
		return m
	}
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	const refused = "refused"
	for _, c := range []struct {
		name  string
		tag   reflect.StructTag
		value any
		want  string // part of the error; empty: the value is accepted
		cut   any    // nil: cutting does not change the value; refused: cutting does not help
	}{
		{"no text", ``, "", "", nil},
		{"no text where one must be", `is:"set"`, "", "is missing", refused},
		{"no name", `is:"name"`, "", "is missing", refused},
		{"no name where it may be missing", `is:"name?"`, "", "", nil},
		{"no number where one must be", `is:"set"`, int64(0), "is missing", refused},
		{"no time where one must be", `is:"set"`, time.Time{}, "is missing", refused},
		{"no list where one must be", `is:"set"`, []string(nil), "is missing", refused},
		{"the longest text", ``, lines(maxText), "", nil},
		{"a text too long", ``, lines(maxText + 1), "not one line of at most 500", lines(maxText-1) + "…"},
		{"a long text of its own bound", `most:"1000"`, lines(1000), "", nil},
		{"too long for its own bound", `most:"3"`, "abcd", "at most 3", "ab…"},
		{"a line break", ``, "a\nb", "not one line", "a b"},
		{"a control character of C1", ``, "a\u0085b", "not one line", "a b"},
		{"no UTF-8", ``, "a\xffb", "not one line", "a?b"},
		{"a name", `is:"name"`, "centro-2", "", nil},
		{"another form", `is:"name?"`, "Centro", "at: ", refused},
		{"a form that matches a part", `is:"digest?"`, strings.Repeat("ab", 33), "is not a digest", refused},
		{"two lines of a form", `is:"code"`, "01\n", "not one line", refused},
		{"a word of a list", `is:"stage"`, "live", "", nil},
		{"a part of a word", `is:"stage"`, "liv", "is not one of", refused},
		{"a number", ``, int64(maxCount), "", nil},
		{"a number too large", ``, int64(maxCount + 1), "not from 0 to", refused},
		{"a number below 0", ``, int64(-1), "not from 0 to", refused},
		{"a number of its own bound", `most:"7"`, 7, "", nil},
		{"beyond its own bound", `most:"7"`, 8, "not from 0 to 7", refused},
		{"a count", ``, uint64(maxCount), "", nil},
		{"a count too large", ``, uint64(maxCount + 1), "is above", refused},
		{"the largest count", ``, uint64(math.MaxUint64), "is above", refused},
		{"a truth", ``, false, "", nil},
		{"no time", ``, time.Time{}, "", nil},
		{"the first time", ``, day(2000, 1, 1), "", nil},
		{"before it", ``, day(1999, 12, 31), "not a time from 2000 to 2200", refused},
		{"the last time", ``, day(2200, 12, 31), "", nil},
		{"after it", ``, day(2201, 1, 1), "not a time from 2000 to 2200", refused},
		{"a table", ``, rows(maxList), "", nil},
		{"too many rows", ``, rows(maxList + 1), "101 rows, at most 100", refused},
		{"rows of its own bound", `most:"101"`, rows(maxList + 1), "", nil},
		{"a row's name", ``, map[string]uint64{"a\nb": 1}, "not one line", refused},
		{"a row's value", ``, map[string]uint64{"a": maxCount + 1}, "is above", refused},
		{"a row's form", `is:"code"`, map[string]string{"a": "1"}, "a code of two digits", refused},
		{"a row without its value", `is:"code?"`, map[string]string{"a": ""}, "is missing", refused},
		{"no pointer", ``, (*inner)(nil), "", nil},
		{"a pointer", ``, &inner{"01"}, "", nil},
		{"a pointer's member", ``, &inner{"1"}, "at.text: ", refused},
		{"a member", ``, inner{"1"}, "at.text: ", refused},
		{"a pointer's long member", ``, &struct{ Text string }{"a\n"}, "not one line", &struct{ Text string }{"a "}},
		{"no list", ``, []string(nil), "", nil},
		{"a list", `is:"name"`, []string{"a", "b"}, "", nil},
		{"the longest list", ``, make([]bool, maxList), "", nil},
		{"a list too long", ``, make([]int, maxList+1), "101 elements, at most 100", make([]int, maxList)},
		{"a list of its own bound", `most:"2"`, []int{1, 2, 3}, "3 elements, at most 2", []int{1, 2}},
		{"a text of a list", ``, []string{"a", "b\n"}, "at[1]: ", []string{"a", "b "}},
		{"the form of a list", `is:"name?"`, []string{"a", "B"}, "at[1]: ", refused},
		{"an empty text in a list", `is:"name?"`, []string{"a", ""}, "at[1]: is missing", refused},
		{"a member of a list", ``, []inner{{}, {"1"}}, "at[1].text: ", refused},
	} {
		v := reflect.New(reflect.TypeOf(c.value)).Elem()
		v.Set(reflect.ValueOf(c.value))
		err := bound("at", v, c.tag, false)
		if (err == nil) != (c.want == "") || err != nil && !(strings.HasPrefix(err.Error(), "at") &&
			strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !reflect.DeepEqual(v.Interface(), c.value) {
			t.Errorf("%s: checked, it becomes %v", c.name, v)
		}
		want := c.cut
		if want == nil {
			want = c.value
		}
		if err := bound("at", v, c.tag, true); (err == nil) != (want != refused) {
			t.Errorf("%s: cut: %v", c.name, err)
		} else if err == nil && !reflect.DeepEqual(v.Interface(), want) {
			t.Errorf("%s: cut, it becomes %v", c.name, v)
		}
	}
}

// Cutting for the signature does not change what the caller's payload points to.
func TestBound_Copies(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	s := Status{Points: make([]Point, maxList+1), NotReady: []string{long}, Rollout: &Progress{Name: "r1",
		Stage: StageLive, Reason: long}}
	of := s
	_ = bound("", reflect.ValueOf(&of).Elem().FieldByName("NotReady"), "", true)
	_ = bound("", reflect.ValueOf(&of).Elem().FieldByName("Points"), "", true)
	_ = bound("", reflect.ValueOf(&of).Elem().FieldByName("Rollout"), "", true)
	if len(s.Points) != maxList+1 || !slices.Equal(s.NotReady, []string{long}) || s.Rollout.Reason != long {
		t.Errorf("the caller's payload became %+v", s)
	}
	if len(of.Points) != maxList || len([]rune(of.Rollout.Reason)) != maxText || len([]rune(of.NotReady[0])) != maxText {
		t.Errorf("it is not cut: %d points", len(of.Points))
	}
}

func TestRefusedRatio(t *testing.T) {
	rule := func(live bool, bundle string, refused, decided int) Running {
		r := Running{Live: live, Bundle: bundle}
		r.Outcomes.Refused, r.Outcomes.Decided = refused, decided
		return r
	}
	for _, c := range []struct {
		rules []Running
		worst float64
		known bool
	}{
		{nil, 0, false}, {[]Running{rule(true, "document", 0, 0)}, 0, false},
		{[]Running{rule(true, "document", 0, 1)}, 0, true},
		{[]Running{rule(false, "document", 1, 1)}, 0, false}, {[]Running{rule(true, "event", 1, 1)}, 0, false},
		{[]Running{rule(true, "document", 1, 2), rule(true, "document", 1, 4)}, 0.5, true},
		{[]Running{rule(true, "document", 1, 4), rule(true, "document", 3, 4), rule(false, "document", 1, 1)}, 0.75, true},
	} {
		if worst, known := (&Status{Rules: c.rules}).RefusedRatio(); worst != c.worst || known != c.known {
			t.Errorf("%+v: %v, %v", c.rules, worst, known)
		}
	}
}

// TestStage: of the stages of a roll-out, two count as applied and two as failed.
func TestStage(t *testing.T) {
	for _, s := range []Stage{"", StageOutside, StageWaiting, StageAdmitted, StageLive, StageRefused, StageReturned} {
		if s.Succeeded() != slices.Contains([]Stage{StageAdmitted, StageLive}, s) ||
			s.Failed() != slices.Contains([]Stage{StageRefused, StageReturned}, s) {
			t.Errorf("%q: succeeded %v, failed %v", s, s.Succeeded(), s.Failed())
		}
	}
}

// TestStatus_Check: a status that contradicts itself is refused.
func TestStatus_Check(t *testing.T) {
	box, key := signer(1)
	for name, c := range map[string]struct {
		change func(*Status)
		want   bool
	}{
		"as it is":         {func(*Status) {}, true},
		"two certificates": {func(s *Status) { s.Certificates = []Certificate{{Name: "api"}, {Name: "ops"}} }, true},
		"one of them twice": {func(s *Status) {
			s.Certificates = []Certificate{{Name: "api"}, {Name: "ca"}, {Name: "api"}}
		}, false},
		"decisions": {func(s *Status) { s.Rules[0].Outcomes.Decided, s.Rules[0].Outcomes.Refused = 2, 2 }, true},
		"more refused than decided": {func(s *Status) { s.Rules[0].Outcomes.Decided, s.Rules[0].Outcomes.Refused = 2, 3 },
			false},
	} {
		s := Status{Branch: "centro", Group: "norte", Epoch: 1, Key: EncodeKey(key.Public), Sequence: 1, At: at,
			Rules: []Running{{Digest: Digest([]byte("rule"))}}}
		c.change(&s)
		if _, err := super.Seal(&s, box); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
