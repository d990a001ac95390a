package archive

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// Object is what a store tells of one.
type Object struct {
	Key  string // without the archive's prefix
	Size int64  // in bytes

	sum string // base64 of its SHA-256; empty where the store has none
}

// Stat tells of an object. Errors: [ErrNotFound], [ErrSetup].
func (a *Archive) Stat(ctx context.Context, key string) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	info, err := a.client.StatObject(ctx, a.bucket, a.prefix+key, minio.StatObjectOptions{Checksum: true})
	if err := classify(err); err != nil {
		return Object{}, err
	}
	return Object{Key: key, Size: info.Size, sum: info.ChecksumSHA256}, nil
}

// List goes through the objects whose key begins with a prefix, in the order of their keys. An error is the last
// element; a list without one is complete.
func (a *Archive) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for info := range a.client.ListObjectsIter(ctx, a.bucket, minio.ListObjectsOptions{Prefix: a.prefix + prefix, Recursive: true}) {
			if err := classify(info.Err); err != nil {
				yield(Object{}, fmt.Errorf("listing %s: %w", prefix, err))
				return
			}
			if !yield(Object{Key: strings.TrimPrefix(info.Key, a.prefix), Size: info.Size}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the library ends without a word
			yield(Object{}, fmt.Errorf("listing %s: %w", prefix, err))
		}
	}
}

// Presign makes a link to an object that works without credentials for the given time, from a second to a week. The
// store answers it with the Content-Disposition given; empty leaves it out. No store is asked, so that the object
// need not exist.
func (a *Archive) Presign(ctx context.Context, key string, life time.Duration, disposition string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	answer := make(url.Values)
	if disposition != "" {
		answer.Set("response-content-disposition", disposition)
	}
	u, err := a.client.PresignedGetObject(ctx, a.bucket, a.prefix+key, life, answer)
	if err != nil {
		return "", fmt.Errorf("signing a link to %s: %w", key, err)
	}
	return u.String(), nil
}
