package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// RepairRecord is what a repaired store keeps of its repair until the trail of acts has it. It is in the store before the store
// gets its name. Therefore a crash never leaves a repaired store without this record.
type RepairRecord struct {
	At      time.Time      `json:"at"`
	Damaged string         `json:"damaged"` // where the damaged store lies
	Sources []RepairSource `json:"sources"`
	Missing []string       `json:"missing"` // a sentence for each series that lacks something
}

// Unrecorded returns the repairs that are not in the trail yet, the oldest first.
func (s *Store) Unrecorded() ([]RepairRecord, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return readRepairs(s.db)
}

// Recorded drops what Unrecorded returned: the trail has it.
func (s *Store) Recorded() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.db.Delete(keyRepairs, pebble.Sync); err != nil {
		s.o.die("dropping the record of a repair: %v", err)
	}
	return nil
}

func readRepairs(r pebble.Reader) (list []RepairRecord, err error) {
	row, err := get(r, keyRepairs)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err == nil && json.Unmarshal(row, &list) != nil {
		err = fmt.Errorf("reading repairs: %w", ErrCorrupt)
	}
	return list, err
}

// record writes the repair into the new store, behind those of before that are in no trail.
func (r *repairer) record() error {
	list, err := readRepairs(r.db)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	now := RepairRecord{At: time.Unix(0, r.row.At).UTC(), Damaged: r.said.Damaged, Sources: r.said.Sources}
	for _, m := range r.said.Missing {
		now.Missing = append(now.Missing, m.String())
	}
	row, err := json.Marshal(append(list, now))
	if err != nil {
		return err
	}
	return r.db.Set(keyRepairs, row, pebble.NoSync)
}
