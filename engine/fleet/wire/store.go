package wire

import (
	"context"
	"errors"
	"iter"
	"time"
)

var (
	// ErrExists: something rests under the key already, these bytes or others. It may have been put there by an earlier
	// attempt of the same caller whose answer was lost: who needs to know reads it.
	ErrExists = errors.New("the store holds an object under this key")
	// ErrNotFound: nothing rests under the key.
	ErrNotFound = errors.New("the store holds no object under this key")
	// ErrTooLarge: what rests there is larger than the caller takes.
	ErrTooLarge = errors.New("the object is larger than it may be")
)

// Store is all that a box asks of the object store. Any error but those above is of the attempt: the request may or may not
// have been carried out. Safe for concurrent use.
type Store interface {
	// Create writes an object where nothing is (If-None-Match: *). Errors: ErrExists.
	Create(ctx context.Context, key string, data []byte) error
	// Put writes an object, whatever is there. Each key has one writer.
	Put(ctx context.Context, key string, data []byte) error
	// Get reads an object of at most limit bytes. Errors: ErrNotFound, ErrTooLarge.
	Get(ctx context.Context, key string, limit int64) (Object, error)
}

// Lister is what the centre, and no box, needs of the store besides Store.
type Lister interface {
	Store
	// List yields the objects whose key begins so, ordered by key.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]
}

// Object is an object of the store.
type Object struct {
	Data []byte
	// Modified is when it was written, and Now when the store answered, both by the store's clock. Now is zero where the
	// answer bore no time.
	Modified, Now time.Time
}

// Entry is an object of a List.
type Entry struct {
	Key      string
	Size     int64     // in bytes
	Modified time.Time // by the store's clock
	Tag      string    // the store's own name for these bytes (ETag): when it is the same again, they are
}
