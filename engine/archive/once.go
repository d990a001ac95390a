package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
)

// Held is an object as the store returned it.
type Held struct {
	Data []byte
	// Modified is when the object was written, and Now when the store answered, both by the store's own clock, in whole
	// seconds. Now is zero where the answer bore no date.
	Modified, Now time.Time
}

// Create writes an object, in one request, if there is none under the key. Errors: ErrExists if there is one, with the same
// bytes or others; ErrSetup, ErrFull, ErrInvalid. After any other error the object may be there; another attempt may succeed.
func (a *Archive) Create(ctx context.Context, key string, data []byte) error {
	return a.write(ctx, key, data, true)
}

// Overwrite writes an object, in one request, and replaces the object that is under the key. Only one writer may write the key.
// Errors: ErrSetup, ErrFull, ErrInvalid; after any other error another attempt may succeed.
func (a *Archive) Overwrite(ctx context.Context, key string, data []byte) error {
	return a.write(ctx, key, data, false)
}

func (a *Archive) write(ctx context.Context, key string, data []byte, once bool) error {
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
		ContentType:          "application/octet-stream",
		UserMetadata:         map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum[:])},
		DisableContentSha256: true, // as Put does
	}
	if once {
		o.SetMatchETagExcept("*") // If-None-Match
	}
	_, err := a.client.PutObject(ctx, a.bucket, a.prefix+key, bytes.NewReader(data), int64(len(data)), "", hex.EncodeToString(sum[:]), o)
	if err := classify(err); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// Fetch returns an object of at most limit bytes, and its time, in one request. Errors: ErrNotFound, ErrSetup, ErrTooLarge.
func (a *Archive) Fetch(ctx context.Context, key string, limit int64) (Held, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	body, info, header, err := a.client.GetObject(ctx, a.bucket, a.prefix+key, minio.GetObjectOptions{})
	if err := classify(err); err != nil {
		return Held{}, fmt.Errorf("reading %s: %w", key, err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err := classify(err); err != nil {
		return Held{}, fmt.Errorf("reading %s: %w", key, err)
	}
	if int64(len(data)) > limit {
		return Held{}, fmt.Errorf("reading %s: %w: more than %d bytes", key, ErrTooLarge, limit)
	}
	h := Held{Data: data, Modified: info.LastModified}
	if now, err := http.ParseTime(header.Get("Date")); err == nil {
		h.Now = now
	}
	return h, nil
}
