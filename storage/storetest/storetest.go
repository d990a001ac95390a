// Package storetest settles stores in the tests of other packages.
package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dtegate/storage"
)

// Settle settles a store's open questions, as a person does who names all that is lost, and n more numbers of each
// series whose last number nothing bounds. possible are series that may have begun.
func Settle(ctx context.Context, s *storage.Store, n uint64, reason string, possible ...string) error {
	begun := func(time.Time) []string { return possible }
	o, err := s.Owed(begun)
	if err != nil {
		return err
	}
	if o == nil {
		return fmt.Errorf("there is nothing to settle")
	}
	var losses []storage.Loss
	for _, next := range o.Series {
		text := next.Lost()
		if text == "" {
			continue
		}
		if next.Known+n > next.Here {
			text = strings.Replace(text, "-N", fmt.Sprint("-", next.Known+n), 1)
		} else if next.Open { // drop the last word: its numbers were never given
			text = text[:max(strings.LastIndex(text, ", "), len(next.Series)+1)]
			if text == next.Series+":" {
				text += storage.NoNumbers
			}
		}
		l, err := storage.ParseLoss(text)
		if err != nil {
			return err
		}
		losses = append(losses, l)
	}
	_, err = s.Settle(ctx, begun, losses, reason)
	return err
}

// Missing returns what no source had of an assembled store.
func Missing(made *storage.Assembled) []storage.Missing {
	if made == nil || made.Owed == nil {
		return nil
	}
	return made.Owed.Missing
}
