package rulestore

import "dtegate/engine/dte"

// Guard returns the guard of a store, for the tests.
func (s *Store) Guard() *Guard { return s.guard }

// Suspended reports whether sales use the previous rule instead.
func (r *Rule) Suspended() bool { return r.suspended.Load() }

// Catalogues returns the catalogues that name the taxes of a rule.
func (r *Rule) Catalogues() *dte.Catalogues { return r.catalogues }
