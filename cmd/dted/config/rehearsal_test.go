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
