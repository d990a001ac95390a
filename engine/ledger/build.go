package ledger

import (
	"context"
	"fmt"
)

// build reads days from the store for the first time. Others go on asking for days that are known.
func (l *Ledger) build(ctx context.Context, missing []string) error {
	select {
	case l.building <- struct{}{}:
		defer func() { <-l.building }()
	case <-ctx.Done():
		return ctx.Err()
	}
	days := make(map[string]*day)
	l.mu.Lock()
	for _, d := range missing {
		if l.days[d] == nil { // else somebody read it meanwhile
			days[d] = newDay()
		}
	}
	l.mu.Unlock()
	if len(days) == 0 {
		return nil
	}
	l.changes.Lock()
	l.builder = make(map[uint64]struct{})
	l.changes.Unlock()
	tip, err := l.scan(ctx, missing, days)

	// Nobody changes the ledger's tip now. What came and changed since is little.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes.Lock()
	touched := l.builder
	l.builder = nil
	l.changes.Unlock()
	if err != nil {
		return err
	}
	if err := l.catchUp(days, &tip, l.tip); err != nil {
		return err
	}
	if err := l.refresh(days, touched); err != nil {
		return err
	}
	for name, d := range days {
		l.days[name] = d
	}
	return nil
}

// scan reads what the store holds of days, and returns the id up to which it has.
func (l *Ledger) scan(ctx context.Context, missing []string, days map[string]*day) (tip uint64, err error) {
	end := l.o.Store.LastID()
	after, err := l.o.First(missing[0])
	if err != nil {
		return 0, fmt.Errorf("finding the first document of %s: %w", missing[0], err)
	}
	last := missing[len(missing)-1]
	rest := l.o.Rest()
	late := 0 // documents in a row that are of later days
	for after < end && late <= l.o.Window {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		entries, err := l.o.Store.Page(after, chunk)
		if err != nil {
			return 0, fmt.Errorf("reading the documents from %s to %s: %w", missing[0], last, err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			after = e.ID
			switch name, err := l.put(days, e); {
			case err != nil:
				return 0, err
			case name > last:
				late++
			case name != "":
				late = 0
			}
		}
		rest()
	}
	return max(end, after), nil
}
