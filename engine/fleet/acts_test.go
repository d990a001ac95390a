package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// TestTell: a box that cannot send its acts keeps the newest thousand, in their order.
func TestTell(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	c, s := &Agent{o: Options{Branch: "centro", Now: func() time.Time { return now }}}, new(state)
	for n := range int64(maxActs + 3) {
		c.queueAct(s, fleetproto.Act{What: fleetproto.ActSettings, Version: n + 1})
		if len(s.Acts) != int(min(n+1, maxActs)) || s.Acts[len(s.Acts)-1].Version != n+1 {
			t.Fatalf("after %d acts %d are kept", n+1, len(s.Acts))
		}
	}
	if first := s.Acts[0]; first.Version != 4 || first.Branch != "centro" || !first.At.Equal(now) {
		t.Errorf("the first is %+v", first)
	}
}

// TestState_OfEarlierProgram: a state file of version 1.0, which has the members of the enrolment beside all others,
// loses none of them.
func TestState_OfEarlierProgram(t *testing.T) {
	want := enrolled{Highest: 7, Object: []byte("signed"), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Own: 6,
		Over: true, Passed: true,
		Points: []fleetproto.Point{{Establishment: "M001", Point: "P001"}}}
	members := map[string]any{"branch": "centro", "version": 9}
	text, err := json.Marshal(want)
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	var s state
	if err := decodeState(append([]byte(hex.EncodeToString(sum[:])+"\n"), text...), &s); err != nil {
		t.Fatal(err)
	}
	if s.Branch != "centro" || s.Version != 9 || !reflect.DeepEqual(s.Enrolled, want) {
		t.Errorf("read %+v", s)
	}
}
