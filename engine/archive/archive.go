// Package archive writes copies of documents to an S3-compatible store, and reads them. The appliance's own store keeps
// the originals. The caller decides what is archived and when an attempt is repeated.
//
// A document's object is written once. Put accepts the same bytes again, and returns [ErrConflict] for other bytes
// under the same key. Only Overwrite replaces an object, and nothing is ever deleted.
package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"dtegate/engine/redacted"
)

// Options of New.
type Options struct {
	Endpoint  string // "https://s3.us-east-1.amazonaws.com"; http is for a store on the same machine
	Region    string // default us-east-1; stores without regions accept it
	Bucket    string // must exist
	Prefix    string // precedes every key: "sucursales/centro"; may be empty
	AccessKey string
	Secret    redacted.Text
	// Credentials is the address of a service on this machine that issues temporary keys, like EC2's instance metadata
	// or AWS's helper of IAM Roles Anywhere: "http://127.0.0.1:9911"; AccessKey and Secret are then empty.
	Credentials string
	// PathStyle puts the bucket into the path instead of the host's name; most stores except AWS require it.
	PathStyle   bool
	Timeout     time.Duration // the longest total time of a call; default 1 min
	Connections int           // the number of idle connections to keep; default 4
	// Transport sends the requests. Default: a transport that keeps connections and uses no proxy.
	Transport http.RoundTripper
}

// Archive is one bucket, or a prefix in it, of an S3-compatible store. It is safe for concurrent use.
type Archive struct {
	client   *minio.Core
	endpoint string
	bucket   string
	prefix   string // empty, or ending in a slash
	timeout  time.Duration
}

// New returns an archive; it connects to nothing. An error names the option at fault.
func New(o Options) (*Archive, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.User != nil {
		return nil, errors.New("archive: Endpoint is not of the form https://host:port")
	}
	held, err := o.credentials()
	if err != nil {
		return nil, err
	}
	prefix := ""
	if o.Prefix != "" {
		if err := checkKey(o.Prefix); err != nil {
			return nil, fmt.Errorf("archive: Prefix: %w", err)
		}
		prefix = o.Prefix + "/"
	}
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	if o.Transport == nil {
		o.Transport = &http.Transport{
			DialContext:           (&net.Dialer{Timeout: o.Timeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:   o.Timeout,
			ResponseHeaderTimeout: o.Timeout,
			MaxIdleConnsPerHost:   cmp.Or(o.Connections, 4),
			IdleConnTimeout:       30 * time.Second,
			DisableCompression:    true,
		}
	}
	o.Transport = bounded{o.Transport, o.Timeout}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.NewCore(u.Host, &minio.Options{
		Creds:           held,
		Secure:          u.Scheme == "https",
		Region:          cmp.Or(o.Region, "us-east-1"), // otherwise the library first asks the store for the region
		BucketLookup:    lookup,
		Transport:       o.Transport,
		TrailingHeaders: true, // otherwise the library sends no checksum
		MaxRetries:      1,    // the caller decides when to try again
	})
	if err != nil {
		return nil, fmt.Errorf("archive: Endpoint: %w", err)
	}
	a := &Archive{client: client, bucket: o.Bucket, prefix: prefix, timeout: o.Timeout, endpoint: o.Endpoint}
	if err := s3utils.CheckValidBucketName(o.Bucket); err != nil {
		return nil, fmt.Errorf("archive: Bucket: %w", err)
	}
	return a, nil
}

func (o *Options) credentials() (*credentials.Credentials, error) {
	if o.Credentials == "" {
		if o.AccessKey == "" || o.Secret == "" {
			return nil, errors.New("archive: AccessKey and Secret are required")
		}
		return credentials.NewStaticV4(o.AccessKey, string(o.Secret), ""), nil
	}
	u, err := url.Parse(o.Credentials)
	if err != nil || u.Scheme != "http" || !net.ParseIP(u.Hostname()).IsLoopback() || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("archive: Credentials is not an address of this machine like http://127.0.0.1:9911")
	}
	if o.AccessKey != "" || o.Secret != "" {
		return nil, errors.New("archive: Credentials replaces AccessKey and Secret: give only one of the two")
	}
	return credentials.New(&credentials.IAM{Endpoint: o.Credentials, Client: &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{}}}), nil
}

// Format prints the archive's address. Without Format, fmt would print the fields, with the secret.
func (a *Archive) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "archive %s/%s/%s", strings.TrimSuffix(a.endpoint, "/"), a.bucket, a.prefix)
}

// Key returns the key of a document's file (SPEC 2.2): <slug>/DTES/<env>/<yyyy>/<mm>/<dd>/DTE<type>/<ext>/<code>.<ext>.
// env is "test" or "prod"; date: 2026-11-21; document: a type of CAT-002; ext: "json" or "pdf".
func Key(slug, env, date, document, code, ext string) string {
	return slug + "/DTES/" + env + "/" + strings.ReplaceAll(date, "-", "/") + "/DTE" + document + "/" + ext + "/" +
		code + "." + ext
}

// checkKey accepts only characters that every store and file system allows and that need no encoding in a URL.
func checkKey(key string) error {
	if len(key) > 500 {
		return fmt.Errorf("%w: a key of %d bytes", ErrInvalid, len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if strings.Trim(segment, ".") == "" || strings.ContainsFunc(segment, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.",
				r))
		}) {
			return fmt.Errorf("%w: %q is not a key of letters, digits, - _ . and /", ErrInvalid, key)
		}
	}
	return nil
}

// MaxObject is the largest size of an object, in bytes: it is sent in one request from memory.
const MaxObject = 64 << 20

// MaxDocument is the largest size of a document's JSON, in bytes. Parsing a forged one may take 80 times its size.
const MaxDocument = 4 << 20

// maxPage is the largest size of an answer to a list request, in bytes: a page has at most 1,000 keys.
const maxPage = 8 << 20

// bounded limits the answer to a list request to maxPage bytes, because the library reads the answer whole into memory,
// and the time for the answer, because a List has no timeout.
type bounded struct {
	http.RoundTripper
	timeout time.Duration
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Has("list-type") {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxPage)
		time.AfterFunc(b.timeout, func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// Put writes an object if the key has no object. If the key's object has the same bytes, nothing is written. Put
// returns after the store has confirmed the bytes. Errors: ErrConflict, ErrSetup, ErrFull, ErrInvalid; after any other
// error another attempt may succeed.
func (a *Archive) Put(ctx context.Context, key, contentType string, data []byte) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if err := a.write(ctx, key, contentType, data, true); err != nil && !errors.Is(err, ErrExists) {
		return Object{}, err
	}
	held, err := a.Stat(ctx, key)
	if sum := sha256.Sum256(data); err == nil && held.Sum != base64.StdEncoding.EncodeToString(sum[:]) {
		err = fmt.Errorf("%w, of %d bytes instead of %d", ErrConflict, held.Size, len(data))
	}
	if err != nil {
		return Object{}, fmt.Errorf("verifying %s: %w", key, err)
	}
	return held, nil
}

// Held is an object as the store returned it.
type Held struct {
	Data []byte
	Tag  string // see Object
	// Modified is when the object was written. Now is when the store answered, or zero. Both are by the store's clock.
	Modified, Now time.Time
}

// Create writes an object, in one request, if the key has no object. Errors: ErrExists, ErrSetup, ErrFull, ErrInvalid.
// After any other error the object may have been written, and another attempt may succeed.
func (a *Archive) Create(ctx context.Context, key string, data []byte) error {
	return a.write(ctx, key, "application/octet-stream", data, true)
}

// Overwrite writes an object, in one request, and replaces any object under the key. Each key may have only one writer.
// Errors: ErrSetup, ErrFull, ErrInvalid; after any other error another attempt may succeed.
func (a *Archive) Overwrite(ctx context.Context, key string, data []byte) error {
	return a.write(ctx, key, "application/octet-stream", data, false)
}

func (a *Archive) write(ctx context.Context, key, contentType string, data []byte, once bool) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if len(data) == 0 || len(data) > MaxObject {
		return fmt.Errorf("archive: %w: %s has %d bytes, want 1 to %d", ErrInvalid, key, len(data), MaxObject)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	sum := sha256.Sum256(data)
	o := minio.PutObjectOptions{
		ContentType: contentType,
		// The store compares the bytes with the checksum and keeps the checksum.
		UserMetadata: map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum[:])},
		// The sum given below signs the whole body. The library's default over http, signing chunk by chunk, panics
		// when the store hangs up (minio-go 7.4.1).
		DisableContentSha256: true,
	}
	if once {
		o.SetMatchETagExcept("*") // If-None-Match: only if the key has no object
	}
	_, err := a.client.PutObject(ctx, a.bucket, a.prefix+key, bytes.NewReader(data), int64(len(data)), "",
		hex.EncodeToString(sum[:]), o)
	if err := classify(err); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// Fetch returns an object of at most limit bytes, in one request. Errors: ErrNotFound, ErrSetup, ErrCold, ErrTooLarge,
// ErrUnread. After a failure, it asks for the object again if the store lists it.
func (a *Archive) Fetch(ctx context.Context, key string, limit int64) (Held, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	known := func(err error) bool {
		return err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrTooLarge) || ctx.Err() != nil
	}
	h, err := a.fetch(ctx, key, limit)
	if known(err) {
		return h, err
	}
	for o, failed := range a.List(ctx, key) {
		if failed == nil && o.Key == key {
			if h, err = a.fetch(ctx, key, limit); !known(err) {
				err = fmt.Errorf("%w: %w", ErrUnread, err)
			}
		}
		break
	}
	return h, err
}

func (a *Archive) fetch(ctx context.Context, key string, limit int64) (Held, error) {
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
	h := Held{Data: data, Tag: info.ETag, Modified: info.LastModified}
	if now, err := http.ParseTime(header.Get("Date")); err == nil {
		h.Now = now
	}
	return h, nil
}

var (
	// ErrConflict: the key's object has other bytes. Another attempt would fail too.
	ErrConflict = errors.New("the object store holds another object under this key")
	// ErrNotFound: there is no object under the key.
	ErrNotFound = errors.New("the object store holds no such object")
	// ErrSetup: the store refuses this box until a person corrects credentials, bucket, certificate or clock.
	ErrSetup = errors.New("the object store does not take this appliance")
	// ErrFull: the store is full until a person makes space.
	ErrFull = errors.New("the object store is full")
	// ErrInvalid: no archive accepts the key or the object.
	ErrInvalid = errors.New("no object store accepts this")
	// ErrTooLarge: the object has more bytes than the caller accepts.
	ErrTooLarge = errors.New("the object is larger than it may be")
	// ErrCold: only this object cannot be read, until a person restores it from a class of storage like S3 Glacier.
	ErrCold = fmt.Errorf("%w: the object is in cold storage", ErrSetup)
	// ErrUnread: the store answers and lists the object, but does not return it: its bytes or their key are lost there,
	// they are in cold storage, or the account may not read them.
	ErrUnread = errors.New("the object store lists the object, but does not return it")
	// ErrExists: the key already has an object, with the same bytes or with others.
	ErrExists = errors.New("the key is taken")

	errNow = errors.New("the object store cannot do this now")
)

// Refuses reports whether the store refuses the account or is full, until a person acts.
func Refuses(err error) bool { return errors.Is(err, ErrSetup) || errors.Is(err, ErrFull) }

// kinds maps the error codes whose HTTP status misleads: a full store does not always answer 507, and a fault of one
// attempt, such as bytes damaged in transit, may get 400.
var kinds = map[string]error{
	"QuotaExceeded":               ErrFull,
	"XMinioStorageFull":           ErrFull,
	"InvalidObjectState":          ErrCold,
	"BadDigest":                   errNow,
	"IncompleteBody":              errNow,
	"RequestTimeout":              errNow,
	"Throttling":                  errNow,
	"ThrottlingException":         errNow,
	"XAmzContentSHA256Mismatch":   errNow,
	"XAmzContentChecksumMismatch": errNow,
}

// classify wraps a library error with its kind. An error without a kind concerns only one attempt.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, certificate := errors.AsType[*tls.CertificateVerificationError](err); certificate ||
		errors.Is(err, http.ErrSchemeMismatch) {
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
	case r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusConflict,
		r.StatusCode == http.StatusTooManyRequests,
		r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented:
		return responseError(errNow, r)
	default:
		return responseError(ErrSetup, r)
	}
}

// hints explain a store's error code to the person who must correct its cause.
var hints = map[string]string{
	"AccessDenied":                 "the account may not do this, see the bucket's policy: ",
	"InvalidAccessKeyId":           "it does not know the access key: ",
	"SignatureDoesNotMatch":        "the secret is not the access key's: ",
	"ExpiredToken":                 "the credentials have expired: ",
	"ExpiredTokenException":        "the credentials have expired: ",
	"TokenRefreshRequired":         "the credentials have expired: ",
	"RequestTimeTooSkewed":         "the clock is wrong: ",
	"AuthorizationHeaderMalformed": "the region is wrong: ",
	"PermanentRedirect":            "the region is wrong: ",
	"NoSuchBucket":                 "there is no bucket of this name: ",
}

func responseError(kind error, r minio.ErrorResponse) error {
	return fmt.Errorf("%w: %s%d %s %.200q", kind, hints[r.Code], r.StatusCode, r.Code, r.Message)
}

// Object is the store's report about an object.
type Object struct {
	Key      string    // without the archive's prefix
	Size     int64     // in bytes
	Tag      string    // the store's own name for these bytes (ETag)
	Sum      string    // base64 of the SHA-256; empty in a List
	Modified time.Time // when the object was written, by the store's clock; only a List sets it
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
	if o.Sum == "" || strings.Contains(o.Sum, "-") { // no sum, or a sum of the parts' sums
		return a.Read(ctx, key)
	}
	return o, nil
}

// Read is like Stat, but computes the SHA-256 from the object's bytes.
func (a *Archive) Read(ctx context.Context, key string) (Object, error) {
	h, err := a.Fetch(ctx, key, MaxObject)
	sum := sha256.Sum256(h.Data)
	return Object{Key: key, Size: int64(len(h.Data)), Tag: h.Tag, Sum: base64.StdEncoding.EncodeToString(sum[:])}, err
}

// List iterates over the objects with a prefix, by key. An error is the last element.
func (a *Archive) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return a.ListAfter(ctx, prefix, "")
}

// ListAfter is List for the keys greater than a key (after); "": all keys.
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
			if !yield(Object{Key: strings.TrimPrefix(info.Key, a.prefix), Size: info.Size, Tag: info.ETag,
				Modified: info.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // when ctx ends, the library returns no error
			yield(Object{}, fmt.Errorf("listing %s: %w", prefix, err))
		}
	}
}

// Presign returns a link to an object that needs no credentials. validity is how long it works: a second to a week.
// disposition, if not empty, is the Content-Disposition of the answer. Presign makes no request.
func (a *Archive) Presign(ctx context.Context, key string, validity time.Duration, disposition string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	answer := make(url.Values)
	if disposition != "" {
		answer.Set("response-content-disposition", disposition)
	}
	u, err := a.client.PresignedGetObject(ctx, a.bucket, a.prefix+key, validity, answer)
	if err != nil {
		return "", fmt.Errorf("signing a link to %s: %w", key, err)
	}
	return u.String(), nil
}
