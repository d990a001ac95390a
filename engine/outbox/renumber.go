package outbox

import (
	"context"
	"fmt"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// lettersBefore are the numbers of a letter's states in stores of before, which records of rules bear too.
var lettersBefore = map[storage.State]storage.State{64: record.LetterOpen, 65: record.LetterSent, 66: record.LetterFailed}

// renumberLetters gives the letters that wait in a store of before the numbers of today. A crash leaves the rest to the next
// start. Letters that were sent wait in no queue and keep their number: nothing reads them again.
func (box *letters) renumberLetters(ctx context.Context) error {
	for _, queue := range []string{record.QueueDeliver, record.QueueUndelivered} {
		waiting, err := box.store.Due(queue, record.Whenever, record.MaxCounted)
		if err != nil {
			return fmt.Errorf("reading queue %s: %w", queue, err)
		}
		for _, entry := range waiting {
			now, before := lettersBefore[entry.State]
			if !before {
				continue
			}
			if _, err := box.store.Advance(ctx, entry.Code, entry.State, storage.Change{To: now, Due: entry.Due}); err != nil {
				return fmt.Errorf("renumbering letter %s: %w", dte.Code(entry.Code), err)
			}
		}
	}
	return nil
}
