package archive

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// Object is what the store reports about an object.
type Object struct {
	Key  string // without the archive's prefix
	Size int64  // in bytes
	// Tag is the store's own name for these bytes (ETag): when it is the same again, they are.
	Tag string
	Sum string // base64 of its SHA-256; a List has none
	// Modified is when it was written, by the store's clock; of a List alone.
	Modified time.Time
}

// Stat returns size, tag and SHA-256 of an object. If the store does not know the SHA-256, the object is read. Errors:
// ErrNotFound, ErrSetup.
func (a *Archive) Stat(ctx context.Context, key string) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	info, err := a.client.StatObject(ctx, a.bucket, a.prefix+key, minio.StatObjectOptions{Checksum: true})
	if err := classify(err); err != nil {
		return Object{}, err
	}
	o := Object{Key: key, Size: info.Size, Tag: info.ETag, Sum: info.ChecksumSHA256}
	if o.Sum == "" || strings.Contains(o.Sum, "-") { // none, or one of the sums of parts
		return a.Read(ctx, key)
	}
	return o, nil
}

// Read is Stat, but it reads the object's bytes and does not believe the store's own digest.
func (a *Archive) Read(ctx context.Context, key string) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	body, info, _, err := a.client.GetObject(ctx, a.bucket, a.prefix+key, minio.GetObjectOptions{})
	if err := classify(err); err != nil {
		return Object{}, err
	}
	defer body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(body, maxObject+1))
	if err := classify(err); err != nil {
		return Object{}, fmt.Errorf("reading %s: %w", key, err)
	}
	return Object{Key: key, Size: n, Tag: info.ETag, Sum: base64.StdEncoding.EncodeToString(sum.Sum(nil))}, nil
}

// Get returns an object's bytes. Errors: ErrNotFound, ErrSetup, or ErrInvalid if the object is too large for a document.
func (a *Archive) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	body, _, _, err := a.client.GetObject(ctx, a.bucket, a.prefix+key, minio.GetObjectOptions{})
	if err := classify(err); err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxObject+1))
	if err := classify(err); err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	if len(data) > maxObject {
		return nil, fmt.Errorf("reading %s: %w: more than %d bytes", key, ErrInvalid, maxObject)
	}
	return data, nil
}

// List iterates over the objects whose keys begin with a prefix, in the order of the keys. An error is the last element; a list
// without an error is complete.
func (a *Archive) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return a.ListAfter(ctx, prefix, "")
}

// ListAfter is List without the keys up to one; empty: without none.
func (a *Archive) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[Object, error] {
	o := minio.ListObjectsOptions{Prefix: a.prefix + prefix, Recursive: true}
	if after != "" {
		o.StartAfter = a.prefix + after
	}
	return func(yield func(Object, error) bool) {
		for info := range a.client.ListObjectsIter(ctx, a.bucket, o) {
			if err := classify(info.Err); err != nil {
				yield(Object{}, fmt.Errorf("listing %s: %w", prefix, err))
				return
			}
			if !yield(Object{Key: strings.TrimPrefix(info.Key, a.prefix), Size: info.Size, Tag: info.ETag, Modified: info.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the library ends without a word
			yield(Object{}, fmt.Errorf("listing %s: %w", prefix, err))
		}
	}
}

// Presign returns a link to an object that works without credentials for life, from a second to a week. The store answers the
// link with this Content-Disposition; empty leaves it out. No request is made, therefore the object need not exist.
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
