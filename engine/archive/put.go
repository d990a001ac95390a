package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
)

// maxObject bounds an object, in bytes: everything is one request and is held in memory.
const maxObject = 64 << 20

// Put writes an object and returns nil once the store has been asked for it and holds these bytes. It writes only where
// nothing is; where the same bytes are already, it is done. Errors: [ErrConflict], [ErrSetup], [ErrFull], [ErrInvalid];
// any other is of this attempt.
func (a *Archive) Put(ctx context.Context, key, contentType string, data []byte) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if len(data) == 0 || len(data) > maxObject {
		return fmt.Errorf("archive: %w: %s has %d bytes, want 1 to %d", ErrInvalid, key, len(data), maxObject)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	sum := sha256.Sum256(data)
	o := minio.PutObjectOptions{
		ContentType: contentType,
		// The store holds the bytes against the checksum and keeps it.
		UserMetadata: map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum[:])},
		// The sum given below signs the whole. Signing chunk by chunk, the library's default over http, panics when the
		// store hangs up (minio-go 7.4.1).
		DisableContentSha256: true,
	}
	o.SetMatchETagExcept("*") // If-None-Match: only where nothing is
	_, err := a.client.PutObject(ctx, a.bucket, a.prefix+key, bytes.NewReader(data), int64(len(data)), "", hex.EncodeToString(sum[:]), o)
	if err := classify(err); err != nil && !errors.Is(err, errExists) {
		return fmt.Errorf("putting %s: %w", key, err)
	}
	if err := a.verify(ctx, key, len(data), base64.StdEncoding.EncodeToString(sum[:])); err != nil {
		return fmt.Errorf("verifying %s: %w", key, err)
	}
	return nil
}

// verify asks the store what it holds. A store that knows no SHA-256 of it must hand it over.
func (a *Archive) verify(ctx context.Context, key string, size int, sum string) error {
	o, err := a.Stat(ctx, key)
	if err != nil {
		return err
	}
	if o.sum == "" {
		held, err := a.read(ctx, key)
		if err != nil {
			return err
		}
		again := sha256.Sum256(held)
		o.sum = base64.StdEncoding.EncodeToString(again[:])
	}
	if o.sum != sum {
		return fmt.Errorf("%w, of %d bytes instead of %d", ErrConflict, o.Size, size)
	}
	return nil
}

func (a *Archive) read(ctx context.Context, key string) ([]byte, error) {
	body, _, _, err := a.client.GetObject(ctx, a.bucket, a.prefix+key, minio.GetObjectOptions{})
	if err := classify(err); err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxObject+1))
	return data, classify(err)
}
