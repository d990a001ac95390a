package totals

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

// scan reads what the store holds of days, and returns an id up to which it has.
func (l *Ledger) scan(ctx context.Context, missing []string, days map[string]*day) (tip uint64, err error) {
	tip = l.o.Store.LastID()
	rest := l.o.Rest()
	for _, name := range missing {
		for after := uint64(0); ; {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			entries, err := l.o.Store.Day(l.o.Day(name), after, chunk)
			if err != nil {
				return 0, fmt.Errorf("reading the documents of %s: %w", name, err)
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				after = e.ID
				if err := l.put(days, e); err != nil {
					return 0, err
				}
			}
			rest()
		}
	}
	return tip, nil
}
