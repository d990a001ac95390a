package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"
)

// maxObject bounds an object, in bytes: everything is one request and is held in memory.
const maxObject = 64 << 20

// Put writes an object if there is none under the key. If the same bytes are there, nothing is written. It returns after the
// store has confirmed that it holds these bytes. Errors: ErrConflict, ErrSetup, ErrFull, ErrInvalid; after any other error
// another attempt may succeed.
func (a *Archive) Put(ctx context.Context, key, contentType string, data []byte) (Object, error) {
	if err := checkKey(key); err != nil {
		return Object{}, fmt.Errorf("archive: %w", err)
	}
	if len(data) == 0 || len(data) > maxObject {
		return Object{}, fmt.Errorf("archive: %w: %s has %d bytes, want 1 to %d", ErrInvalid, key, len(data), maxObject)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	sum := sha256.Sum256(data)
	digest := base64.StdEncoding.EncodeToString(sum[:])
	o := minio.PutObjectOptions{
		ContentType: contentType,
		// The store holds the bytes against the checksum and keeps it.
		UserMetadata: map[string]string{"x-amz-checksum-sha256": digest},
		// The sum given below signs the whole. Signing chunk by chunk, the library's default over http, panics when the
		// store hangs up (minio-go 7.4.1).
		DisableContentSha256: true,
	}
	o.SetMatchETagExcept("*") // If-None-Match: only where nothing is
	_, err := a.client.PutObject(ctx, a.bucket, a.prefix+key, bytes.NewReader(data), int64(len(data)), "", hex.EncodeToString(sum[:]), o)
	if err := classify(err); err != nil && !errors.Is(err, ErrExists) {
		return Object{}, fmt.Errorf("putting %s: %w", key, err)
	}
	held, err := a.Stat(ctx, key)
	if err == nil && held.Sum != digest {
		err = fmt.Errorf("%w, of %d bytes instead of %d", ErrConflict, held.Size, len(data))
	}
	if err != nil {
		return Object{}, fmt.Errorf("verifying %s: %w", key, err)
	}
	return held, nil
}
