package health

import (
	"strings"
	"testing"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/refusal"
)

// Each reason why a box of a chain does not number has its own words: they decide what a person does.
func TestCheckEnrolled(t *testing.T) {
	for _, c := range []struct {
		s                 fleet.Standing
		code, en, es, not string // not: words that would be false
	}{
		{fleet.Standing{Epoch: 1, Highest: 1}, "", "", "", ""},
		{fleet.Standing{}, refusal.CodeNotEnrolled, "has not enrolled this box", "no ha inscrito", ""},
		{fleet.Standing{Highest: 2, Replaced: true}, refusal.CodeBoxReplaced, "this box was never enrolled",
			"este no está inscrito", "any more"},
		{fleet.Standing{Epoch: 1, Highest: 2, Replaced: true}, refusal.CodeBoxReplaced,
			"took this branch after epoch 1", "tomó esta sucursal", "copy"},
		// the centre has enrolled this box's key once more: no other box has the branch now
		{fleet.Standing{Epoch: 1, Highest: 3, Replaced: true}, refusal.CodeBoxReplaced,
			"until this box is recovered and has another key", "tomó esta sucursal", "has this branch"},
		{fleet.Standing{Epoch: 1, Highest: 1, Replaced: true, Cloned: true}, refusal.CodeBoxReplaced,
			"Another copy of this box", "otra copia de este equipo", "Another box"},
		{fleet.Standing{Behind: "this store lacks"}, refusal.CodeStoreBehind, "this store lacks", "le faltan documentos",
			""},
		{fleet.Standing{Epoch: 1, Highest: 1, Points: []fleetproto.Point{{}}, Behind: "at one"}, "", "", "", ""},
	} {
		err := CheckEnrolled(c.s)
		if c.code == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.s, err)
			}
			continue
		}
		if err == nil || err.Code != c.code || !strings.Contains(err.English, c.en) ||
			!strings.Contains(err.Message, c.es) || c.not != "" && strings.Contains(err.English, c.not) {
			t.Errorf("%+v: %+v", c.s, err)
		}
	}
}
