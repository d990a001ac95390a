package fleet

import (
	"context"
	"fmt"

	"dtegate/engine/fleet/wire"
)

// line is the way to the object store: each request is counted, and has a time limit.
type line struct {
	store   wire.Store
	metrics *metrics
}

// get asks the store for an object, within the time of a request.
func (l *line) get(ctx context.Context, key string, limit int64) (wire.Object, error) {
	within := askFor
	if limit > wire.MaxJWS {
		within = fetchFor
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o, err := l.store.Get(ctx, key, limit)
	l.metrics.count("get", err)
	return o, err
}

// fetch reads an object that its digest names.
func (l *line) fetch(ctx context.Context, key, digest string, limit int64) ([]byte, error) {
	o, err := l.get(ctx, key, limit)
	if err != nil {
		return nil, err
	}
	if got := wire.Digest(o.Data); got != digest {
		return nil, fmt.Errorf("%w: %s holds bytes of another digest (%.12s)", wire.ErrOther, key, got)
	}
	return o.Data, nil
}

// create writes an object that is not there yet. Errors: wire.ErrExists.
func (l *line) create(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := l.store.Create(ctx, key, data)
	l.metrics.count("create", err)
	return err
}

// put replaces an object.
func (l *line) put(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := l.store.Put(ctx, key, data)
	l.metrics.count("put", err)
	return err
}
