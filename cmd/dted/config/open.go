package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/recordmac"
	"dtegate/gateway/certificate"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// What dted and dtectl make of a configuration alike.

// Store is how the store is opened, without its second copy.
func (c *Config) Store(log *slog.Logger) storage.Options {
	return storage.Options{Dir: c.Data, MarkPath: c.Mark, Logger: log, Now: c.Now}
}

// BoxAuthority is the box's own certificate authority, made or not.
func (c *Config) BoxAuthority() *certificate.Own {
	return &certificate.Own{Folder: c.TLS.Folder, Names: c.TLS.Names, Now: time.Now, Write: WriteFile}
}

// Open returns the archive; it is not asked yet.
func (a *Archive) Open() (*archive.Archive, error) { return a.open(0) }

// open keeps so many connections; 0: a few.
func (a *Archive) open(connections int) (*archive.Archive, error) {
	var secret string
	if a.Credentials == "" || a.SecretFile != "" {
		var err error
		if secret, err = ReadSecret("archive.secret_file", a.SecretFile); err != nil {
			return nil, err
		}
	}
	opened, err := archive.New(archive.Options{Endpoint: a.Endpoint, Region: a.Region, Bucket: a.Bucket,
		Prefix:    a.Prefix,
		AccessKey: a.AccessKey, Secret: archive.Secret(secret), PathStyle: a.PathStyle, Credentials: a.Credentials,
		Connections: connections})
	if err != nil {
		return nil, errors.New(archiveSettings.Replace(err.Error()))
	}
	return opened, nil
}

// archiveSettings names the settings in what archive.New says of its options.
var archiveSettings = strings.NewReplacer("archive: Endpoint is", "archive.endpoint: is", "archive: Endpoint",
	"archive.endpoint", "archive: AccessKey and Secret are required",
	"archive.access_key, archive.secret_file: both are needed", "archive: Credentials is", "archive.credentials: is",
	"archive: Credentials stands instead of AccessKey and Secret",
	"archive.credentials: stands instead of access_key and secret_file", "archive: Prefix", "archive.prefix",
	"archive: Bucket", "archive.bucket")

// Pinned reads the keys that may sign rules, all that are good, and says of each of the others why it is not.
func (r *Rules) Pinned() (bundle.Keys, error) {
	keys := bundle.Keys{Threshold: r.Threshold}
	var faults []error
	for _, k := range r.Keys {
		key := bundle.Key{ID: k.ID}
		b, err := os.ReadFile(k.File)
		if err == nil {
			if key.Public, err = bundle.ParsePublic(b); err != nil {
				err = fmt.Errorf("%s: %w", k.File, err)
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("rules.key: %s: %w", k.ID, err))
			continue
		}
		keys.Pinned = append(keys.Pinned, key)
	}
	if faults == nil {
		faults = append(faults, keys.Check())
	}
	return keys, errors.Join(faults...)
}

// Box reads the box's key; fs.ErrNotExist when there is none yet.
func (c *Config) Box() (*recordmac.Key, error) {
	b, err := os.ReadFile(c.BoxKey)
	if err != nil {
		return nil, fmt.Errorf("reading the box's key: %w", err)
	}
	k, err := recordmac.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; put it back, or take it away: the next start makes another", c.BoxKey, err)
	}
	return k, nil
}

// MakeBox reads the box's key, and makes one where there is none. One that is there and cannot be read stays as it is.
func (c *Config) MakeBox() (k *recordmac.Key, made bool, err error) {
	k, err = c.Box()
	if errors.Is(err, fs.ErrNotExist) {
		k = recordmac.New()
		return k, true, WriteFile(c.BoxKey, k.Text())
	}
	return k, false, err
}

// ReadSecret returns the line of a file that a setting names. An empty file is an error: no secret is empty.
func ReadSecret(name, file string) (string, error) {
	if file == "" {
		return "", fmt.Errorf("%s: is missing", name)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", fmt.Errorf("%s: %s is empty", name, file)
	}
	return secret, nil
}
