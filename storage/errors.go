package storage

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound: no such record, part or key.
	ErrNotFound = errors.New("not found")
	// ErrKeyTaken: the idempotency key has made a record already; Lookup returns it. No number was spent.
	ErrKeyTaken = errors.New("idempotency key is taken")
	// ErrCodeTaken: the code has a record already. No number was spent.
	ErrCodeTaken = errors.New("code is taken")
	// ErrTurn: a record with a lower number of the same series could not be made, so this number is not the next one. No
	// number was spent.
	ErrTurn = errors.New("a record before this one in its series was not made")
	// ErrPartExists: a part of that name exists. Parts are written once.
	ErrPartExists = errors.New("part exists")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrExists: Create found something in the place of the store or of its mark.
	ErrExists = errors.New("something is there already")
	// ErrNoStore: Open found no store. It never makes one, so that a mistyped path cannot restart numbering at 1.
	ErrNoStore = errors.New("no store")
	// ErrMark: the store is behind its high-water mark (acknowledged records are missing), or the mark is missing, unreadable or
	// another store's. To continue issuing could use numbers twice.
	ErrMark = errors.New("store and high-water mark do not agree")
	// ErrInUse: another process has the store open, most likely the appliance.
	ErrInUse = errors.New("store is in use")
	// ErrReadOnly: the store was opened for reading only.
	ErrReadOnly = errors.New("store is open to read only")
	// ErrRestored: the store came from a backup, and Reconcile has not yet settled which numbers were spent after the backup.
	ErrRestored = errors.New("store was restored and its numbers are not reconciled")
	// ErrBehind: another medium knows more of this store's history than the store; see Store.Behind. To take more numbers would
	// use numbers twice.
	ErrBehind = errors.New("another medium knows more than the store")
	// ErrMissing: documents are missing in a store that was rebuilt from a damaged copy, and nobody has accepted that yet.
	ErrMissing = errors.New("documents are missing")
	// ErrDiverged: a second copy holds another history than the store, so nothing can be taken from it.
	ErrDiverged = errors.New("the second copy holds another history")
	// ErrCorrupt: rows contradict each other or the disk returned damaged blocks. Nothing more is written.
	ErrCorrupt = errors.New("store is damaged")
)

// ConflictError reports that a record was not in the state from which Advance should move it.
type ConflictError struct {
	Have State // the state it is in
}

func (e *ConflictError) Error() string { return fmt.Sprintf("record is in state %d", e.Have) }
