package archive

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
)

var (
	// ErrConflict: other bytes rest under the key. No further attempt changes that.
	ErrConflict = errors.New("the archive holds another object under this key")
	// ErrNotFound: nothing rests under the key.
	ErrNotFound = errors.New("the archive holds no such object")
	// ErrSetup: the store refuses this box, not this object: credentials, bucket, region, certificate, clock. It stays
	// so until somebody changes the configuration or the store.
	ErrSetup = errors.New("the archive does not take this appliance")
	// ErrFull: the store has no room. It stays so until somebody makes some.
	ErrFull = errors.New("the archive is full")
	// ErrInvalid: the key or the object is not one that an archive takes.
	ErrInvalid = errors.New("this cannot be archived")
	// ErrTooLarge: the object has more bytes than the caller takes.
	ErrTooLarge = errors.New("the object is larger than it may be")
	// ErrExists: something rests under the key, these bytes or others.
	ErrExists = errors.New("the key is taken")

	errNow = errors.New("the archive cannot now")
)

// kinds are the codes whose HTTP status misleads: stores without status 507 that are full, and 400s that are of the
// attempt, such as bytes that were damaged on their way.
var kinds = map[string]error{
	"QuotaExceeded":               ErrFull,
	"XMinioStorageFull":           ErrFull,
	"BadDigest":                   errNow,
	"IncompleteBody":              errNow,
	"RequestTimeout":              errNow,
	"Throttling":                  errNow,
	"ThrottlingException":         errNow,
	"XAmzContentSHA256Mismatch":   errNow,
	"XAmzContentChecksumMismatch": errNow,
}

// classify gives an error of the library its kind. One of no kind is of this attempt: no connection, no answer in
// time, an overloaded or broken store.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	r := minio.ToErrorResponse(err)
	switch {
	case r.StatusCode == 0:
		return err
	case kinds[r.Code] != nil:
		return responseError(kinds[r.Code], r)
	case r.StatusCode == http.StatusInsufficientStorage:
		return responseError(ErrFull, r)
	case r.StatusCode == http.StatusPreconditionFailed:
		return ErrExists
	case r.StatusCode == http.StatusNotFound && r.Code == "NoSuchKey":
		return ErrNotFound
	case r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusConflict, r.StatusCode == http.StatusTooManyRequests,
		r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented:
		return responseError(errNow, r)
	default:
		return responseError(ErrSetup, r)
	}
}

func responseError(kind error, r minio.ErrorResponse) error {
	return fmt.Errorf("%w: %d %s %.200q", kind, r.StatusCode, r.Code, r.Message)
}
