// Package archive writes copies of documents to an S3-compatible store, and reads them. The appliance's own store has the
// original, and knows what is to be archived and when it is tried.
//
// A document's object is written once. Put accepts the same bytes again, and returns [ErrConflict] for other bytes under the same
// key. Only Overwrite replaces an object, and nothing is ever deleted.
package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Secret is the key of an S3 account; it prints redacted.
type Secret string

const redacted = "[redacted]"

func (Secret) String() string       { return redacted }
func (Secret) GoString() string     { return redacted }
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders (JSON, TOML), Format from the verbs that String does not reach.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, redacted) }

// Options of New.
type Options struct {
	Endpoint  string // "https://s3.us-east-1.amazonaws.com"; http is for a store on the same machine
	Region    string // default us-east-1, which stores without regions take
	Bucket    string // must exist
	Prefix    string // stands before every key: "sucursales/centro"; may be empty
	AccessKey string
	Secret    Secret
	// Credentials is the address of a service on this machine that gives out temporary keys, like EC2's instance metadata or AWS's
	// helper of IAM Roles Anywhere: "http://127.0.0.1:9911". With it AccessKey and Secret must be empty.
	Credentials string
	// PathStyle puts the bucket into the path instead of the host's name, as most stores but AWS want it.
	PathStyle bool
	// Timeout is how long a call may take in all. Default 1 min.
	Timeout time.Duration
	// Connections are how many are kept for the next calls. Default 4.
	Connections int
	// Transport, default one that keeps connections and uses no proxy.
	Transport http.RoundTripper
}

// Archive is one bucket, or a prefix in it, of an S3-compatible store. It is safe for concurrent use.
type Archive struct {
	client   *minio.Core
	endpoint string
	bucket   string
	prefix   string // empty, or with its slash
	timeout  time.Duration
}

// New returns an archive; it connects to nothing. An error names the option that cannot be used.
func New(o Options) (*Archive, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
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
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.NewCore(u.Host, &minio.Options{
		Creds:           held,
		Secure:          u.Scheme == "https",
		Region:          cmp.Or(o.Region, "us-east-1"), // else the library asks the store first
		BucketLookup:    lookup,
		Transport:       o.Transport,
		TrailingHeaders: true, // the library lets no checksum through without
		MaxRetries:      1,    // whoever calls decides when to try again
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

// credentials are keys that are given, or asked for when they are needed.
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
		return nil, errors.New("archive: Credentials stands instead of AccessKey and Secret")
	}
	return credentials.New(&credentials.IAM{Endpoint: o.Credentials, Client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}), nil
}

// Format prints the archive's address. fmt would otherwise print the fields, which hold the secret.
func (a *Archive) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "archive %s/%s/%s", strings.TrimSuffix(a.endpoint, "/"), a.bucket, a.prefix)
}

// Key returns the key of a document's file (SPEC 2.2): <slug>/DTES/<env>/<yyyy>/<mm>/<dd>/DTE<type>/<ext>/<code>.<ext>. env is
// "test" or "prod", date the document's own (2026-11-21), document a type of CAT-002, ext "json" or "pdf".
func Key(slug, env, date, document, code, ext string) string {
	return slug + "/DTES/" + env + "/" + strings.ReplaceAll(date, "-", "/") + "/DTE" + document + "/" + ext + "/" + code + "." + ext
}

// checkKey takes what every store and every file system behind one can hold, and what an URL needs not encode.
func checkKey(key string) error {
	if len(key) > 500 {
		return fmt.Errorf("%w: a key of %d bytes", ErrInvalid, len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if strings.Trim(segment, ".") == "" || strings.ContainsFunc(segment, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
		}) {
			return fmt.Errorf("%w: %q is not a key of letters, digits, - _ . and /", ErrInvalid, key)
		}
	}
	return nil
}
