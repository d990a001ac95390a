package audit

import (
	"context"
	"fmt"
	"strings"

	"dtegate/storage"
)

const actRepair = "store.repair"

// maxDetail is how long the text of a repair may be, in bytes.
const maxDetail = 1000

// RecordRepairs records the repairs of the store that are not in its trail, each once: the store itself remembers them, also when
// the process ended before it could record them. It records nothing while the store is to be reconciled, because nothing is
// written to such a store.
func (t *Trail) RecordRepairs(ctx context.Context, who, from string) error {
	if t.store.Restored() != nil || t.store.Behind() != nil {
		return nil
	}
	list, err := t.store.Unrecorded()
	if err != nil || len(list) == 0 {
		return err
	}
	for _, r := range list {
		last, err := t.Last(func(a *Act) bool { return a.What == actRepair && a.Target == r.Damaged })
		if err == nil && last == nil {
			err = t.Record(ctx, Act{Who: who, From: from, What: actRepair, Target: r.Damaged, Detail: RepairText(r), Outcome: Done})
		}
		if err != nil {
			return err
		}
	}
	// If we crash here, the trail has them, and they are not recorded again.
	return t.store.Recorded()
}

// RepairText returns a text: what a repair took from each medium, and what is missing.
func RepairText(r storage.RepairRecord) string {
	var of []string
	for _, s := range r.Sources {
		of = append(of, fmt.Sprintf("%d rows of %s", s.Taken, s.Name))
	}
	text := fmt.Sprintf("repaired on %s: %s; the damaged store is in %s", r.At.Format("2006-01-02 15:04:05Z"), strings.Join(of, ", "), r.Damaged)
	for _, m := range r.Missing {
		text += "; missing: " + m
	}
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "")
	}
	return text
}
