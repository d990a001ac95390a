// Package bucket is a chain's store on an S3-compatible server.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// Bucket is a fleetproto.Lister. It returns errors of fleetproto and of the archive.
type Bucket struct{ archive *archive.Archive }

var _ fleetproto.Lister = Bucket{}

// New returns the store in an archive's bucket, under the archive's prefix.
func New(a *archive.Archive) Bucket { return Bucket{a} }

// Create implements fleetproto.Store.
func (b Bucket) Create(ctx context.Context, key string, data []byte) error {
	return named(b.archive.Create(ctx, key, data))
}

// Put implements fleetproto.Store.
func (b Bucket) Put(ctx context.Context, key string, data []byte) error {
	return named(b.archive.Overwrite(ctx, key, data))
}

// Get implements fleetproto.Store.
func (b Bucket) Get(ctx context.Context, key string, limit int64) (fleetproto.Object, error) {
	h, err := b.archive.Fetch(ctx, key, limit)
	return fleetproto.Object{Data: h.Data, Modified: h.Modified, Now: h.Now}, named(err)
}

// List implements fleetproto.Lister.
func (b Bucket) List(ctx context.Context, prefix string) iter.Seq2[fleetproto.Entry, error] {
	return b.ListAfter(ctx, prefix, "")
}

// ListAfter implements fleetproto.Lister.
func (b Bucket) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[fleetproto.Entry, error] {
	return func(yield func(fleetproto.Entry, error) bool) {
		for o, err := range b.archive.ListAfter(ctx, prefix, after) {
			if !yield(fleetproto.Entry{Key: o.Key, Size: o.Size, Modified: o.Modified, Tag: o.Tag}, named(err)) {
				return
			}
		}
	}
}

// named wraps an error of the archive in the corresponding error of fleetproto.
func named(err error) error {
	for of, name := range map[error]error{archive.ErrExists: fleetproto.ErrExists,
		archive.ErrNotFound: fleetproto.ErrNotFound, archive.ErrTooLarge: fleetproto.ErrTooLarge,
		archive.ErrSetup: fleetproto.ErrRefused, archive.ErrFull: fleetproto.ErrRefused} {
		if errors.Is(err, of) {
			return fmt.Errorf("%w: %w", name, err)
		}
	}
	return err
}
