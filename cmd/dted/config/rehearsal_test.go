package config

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// A store is for production or for its rehearsal, and never changes between them.
func TestRehearse(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	of := func(data string, rehearsal bool, last uint64) error {
		return (&Config{Data: data, Authority: Authority{Rehearsal: rehearsal}}).Rehearse(last, log)
	}
	dir := t.TempDir()
	production, stage := filepath.Join(dir, "production"), filepath.Join(dir, "stage")
	for _, step := range []struct {
		data      string
		rehearsal bool
		last      uint64
		refused   string
	}{
		{production, false, 0, ""},
		{production, false, 7, ""},
		{production, true, 7, "needs a store of its own"},
		{production, false, 8, ""},
		{stage, true, 0, ""},
		{stage, true, 5, ""}, // started again
		{stage, false, 5, "simulated seals"},
	} {
		err := of(step.data, step.rehearsal, step.last)
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// Another branch's documents are told by their establishments.
func TestOurs(t *testing.T) {
	c := &Config{Ambiente: "01", Points: []Point{{Establishment: "M001"}, {Establishment: "S002"}}}
	for series, refused := range map[string]string{
		"01/reglas":                                 "",
		"01/reglas 01/01/S002/P001/2026":            "",
		"01/01/M009/P001/2025 01/03/M001/P001/2026": "", // an establishment that was closed
		"00/01/M001/P001/2026":                      "", // production has just begun
		"01/01/M009/P001/2025 01/03/M010/P001/2026": "its documents are of M009, M010, ",
		"01/reglas 01/01/M009/P001/2025":            "its documents are of M009, ",
	} {
		err := c.Store(nil).Ours(strings.Split(series, " "))
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%s: %v", series, err)
		}
	}
}
