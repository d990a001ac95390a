package config

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"

	"dtegate/plugins"
	"dtegate/rules/bundle"
	"dtegate/rules/suggest"
)

// TokenFile is the list of tokens. It has only keyed hashes, from which nobody can read a token.
type TokenFile struct {
	// Secret is the key of the hashes: 32 bytes in hex.
	Secret string `toml:"secret"`
	// First is the id of the first token in a file that replaces a lost file; 0 means 1.
	First  int64   `toml:"first,omitzero"`
	Tokens []Token `toml:"token"`
}

// Token is one till's right to issue. A revoked token stays in the file, without a hash: documents name its id.
type Token struct {
	ID          int64     `toml:"id" json:"id"`
	Name        string    `toml:"name" json:"name"`
	Hash        string    `toml:"hash" json:"-"` // hex of HMAC-SHA-256 under the secret; empty: revoked
	Point       int64     `toml:"point_of_sale" json:"point_of_sale"`
	Permissions []string  `toml:"permissions" json:"permissions"`
	Made        time.Time `toml:"made,omitzero" json:"made,omitzero"`
	MadeBy      string    `toml:"made_by,omitempty" json:"made_by,omitempty"`
	Rotated     time.Time `toml:"rotated,omitzero" json:"rotated,omitzero"`
	RotatedBy   string    `toml:"rotated_by,omitempty" json:"rotated_by,omitempty"`
	// PreviousHash is the hash from before the last rotation, valid until PreviousUntil.
	PreviousHash  string    `toml:"previous_hash,omitempty" json:"-"`
	PreviousUntil time.Time `toml:"previous_until,omitzero" json:"previous_until,omitzero"`
	Revoked       time.Time `toml:"revoked,omitzero" json:"revoked,omitzero"`
	RevokedBy     string    `toml:"revoked_by,omitempty" json:"revoked_by,omitempty"`
}

// Permissions lists SPEC 2.8's permissions (ANULACION, and those for the document types built into this program), and
// this appliance's own two, which GET /dte/information does not show. CONSULTA lets a token read documents of types
// that it may not issue, if access.reading restricts reading. REENVIO lets a token mail a document to an address that
// the document does not contain. A bundle may add a type with a further permission.
var Permissions = func() (list []string) {
	for _, t := range plugins.Types() {
		if t.Permission != "" {
			list = append(list, t.Permission)
		}
	}
	return append(list, bundle.OwnPermissions...)
}()

var permissionForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,40}$`)

// CheckPermission refuses a name without the form of a permission, and a name that looks like a misspelt permission.
func CheckPermission(name string) error {
	if slices.Contains(Permissions, name) {
		return nil
	}
	if i, letters := suggest.Of(name, Permissions); i >= 0 && letters < 3 {
		return fmt.Errorf("there is no permission %q: did you mean %s?", name, Permissions[i])
	}
	if !permissionForm.MatchString(name) {
		return fmt.Errorf("permission %q is not one of %s, and does not have the form of a new type's permission", name,
			strings.Join(Permissions, ", "))
	}
	return nil
}

// MaxGrace is the longest time for which a token may stay valid after its rotation.
const MaxGrace = 30 * 24 * time.Hour

// ErrNoToken means that no token has the id, or that the token is revoked.
var ErrNoToken = errors.New("no such token")

// LoadTokens reads a token file.
func LoadTokens(path string) (*TokenFile, error) {
	t := new(TokenFile)
	if err := read(path, t); err != nil {
		if bad := new(Invalid); errors.As(err, &bad) { // callers take an Invalid for a fault of the configuration
			err = errors.New(bad.Error())
		}
		return nil, err
	}
	if !isHash(t.Secret) {
		return nil, fmt.Errorf("%s: secret must be 32 bytes in hex", path)
	}
	ids := make(map[int64]bool)
	for _, k := range t.Tokens {
		if ids[k.ID] {
			return nil, fmt.Errorf("%s: token %d appears twice", path, k.ID)
		}
		ids[k.ID] = true
		if k.Active() && !isHash(k.Hash) || k.PreviousHash != "" && !isHash(k.PreviousHash) {
			return nil, fmt.Errorf("%s: token %d: hash must be 32 bytes in hex", path, k.ID)
		}
	}
	return t, nil
}

func isHash(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 32
}

// Active reports whether the token is in force, that is, not revoked.
func (t *Token) Active() bool { return t.Revoked.IsZero() }

// EditTokens changes a token file under a lock that the appliance and dtectl share. If edit fails, nothing is written.
func EditTokens(path string, edit func(*TokenFile) error) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("locking tokens: %w", err)
	}
	defer folder.Close() // and unlock
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking tokens: %w", err)
	}
	t, err := LoadTokens(path)
	if err != nil {
		return err
	}
	if err := edit(t); err != nil {
		return err
	}
	return t.Save(path)
}

// BeginTokens makes a token file that replaces a lost file; today is in the branch's time. Records name their tokens by
// id; the new ids therefore begin with the day, far above the lost ones: 26112201 is the first id of 22 November 2026.
// BeginTokens fails if the file exists.
func BeginTokens(path string, today time.Time) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s exists: a new file may only replace a lost file", path)
		}
		return err
	}
	first := int64(today.Year()%100*10000+int(today.Month())*100+today.Day())*100 + 1
	return (&TokenFile{Secret: Secret(), First: first}).Save(path)
}

// Add makes a token for a point of sale and returns the token with its secret. The secret is not stored.
func (t *TokenFile) Add(c *Config, name string, point int64, permissions []string, by string, at time.Time) (*Token,
	string, error) {
	for _, p := range permissions {
		if !slices.Contains(Permissions, p) {
			return nil, "", fmt.Errorf("permission %q is not one of %s; dtectl token grant gives the permission "+
				"of a new type", p, strings.Join(Permissions, ", "))
		}
	}
	if len(permissions) == 0 {
		return nil, "", errors.New("a token needs a permission")
	}
	if name == "" || len(name) > 100 {
		return nil, "", errors.New("a token needs a name of at most 100 bytes")
	}
	if !slices.ContainsFunc(c.Points, func(p Point) bool { return p.ID == point }) {
		return nil, "", fmt.Errorf("the configuration has no point of sale with id %d", point)
	}
	k := Token{ID: max(1, t.First), Name: name, Point: point, Permissions: permissions,
		Made: at.UTC().Truncate(time.Second), MadeBy: by}
	for _, other := range t.Tokens {
		k.ID = max(k.ID, other.ID+1)
	}
	secret := Secret()
	k.Hash = t.hash(secret)
	t.Tokens = append(t.Tokens, k)
	return &t.Tokens[len(t.Tokens)-1], secret, nil
}

// Rotate gives a token a new secret. The current secret stays valid for the grace, 0 to MaxGrace; older secrets end.
func (t *TokenFile) Rotate(id int64, grace time.Duration, by string, at time.Time) (*Token, string, error) {
	k, err := t.find(id)
	if err != nil {
		return nil, "", err
	}
	if grace < 0 || grace > MaxGrace {
		return nil, "", fmt.Errorf("a grace is 0 to %v", MaxGrace)
	}
	k.PreviousHash, k.PreviousUntil = "", time.Time{}
	if grace > 0 {
		k.PreviousHash, k.PreviousUntil = k.Hash, at.Add(grace).UTC().Truncate(time.Second)
	}
	secret := Secret()
	k.Hash, k.Rotated, k.RotatedBy = t.hash(secret), at.UTC().Truncate(time.Second), by
	return k, secret, nil
}

// Grant adds permissions to a token and takes none away.
func (t *TokenFile) Grant(id int64, permissions []string) (*Token, error) {
	k, err := t.find(id)
	if err != nil {
		return nil, err
	}
	for _, p := range permissions {
		if err := CheckPermission(p); err != nil {
			return nil, err
		}
		if !slices.Contains(k.Permissions, p) {
			k.Permissions = append(k.Permissions, p)
		}
	}
	return k, nil
}

// Withdraw takes permissions from a token, which keeps at least one.
func (t *TokenFile) Withdraw(id int64, permissions []string) (*Token, error) {
	k, err := t.find(id)
	if err != nil {
		return nil, err
	}
	for _, p := range permissions {
		i := slices.Index(k.Permissions, p)
		if i < 0 {
			return nil, fmt.Errorf("token %d has no permission %q: it may %s", id, p, strings.Join(k.Permissions, ", "))
		}
		k.Permissions = slices.Delete(k.Permissions, i, i+1)
	}
	if len(k.Permissions) == 0 {
		return nil, fmt.Errorf("token %d would have no permission: dtectl token revoke %d ends it", id, id)
	}
	return k, nil
}

// Revoke ends a token at once; the secret from before the last rotation also ends.
func (t *TokenFile) Revoke(id int64, by string, at time.Time) (*Token, error) {
	k, err := t.find(id)
	if err != nil {
		return nil, err
	}
	k.Hash, k.PreviousHash, k.PreviousUntil = "", "", time.Time{}
	k.Revoked, k.RevokedBy = at.UTC().Truncate(time.Second), by
	return k, nil
}

func (t *TokenFile) find(id int64) (*Token, error) {
	for i := range t.Tokens {
		if t.Tokens[i].ID == id && t.Tokens[i].Active() {
			return &t.Tokens[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %d", ErrNoToken, id)
}

func (t *TokenFile) hash(secret string) string {
	key, _ := hex.DecodeString(t.Secret) // LoadTokens checked it
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(secret))
	return hex.EncodeToString(mac.Sum(nil))
}

// Secret returns 32 random bytes in hex.
func Secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return hex.EncodeToString(b)
}

// CheckPoints returns an error for each active token whose point of sale the configuration lacks.
func (t *TokenFile) CheckPoints(c *Config) error {
	var faults []error
	for _, k := range t.Tokens {
		if k.Active() && !slices.ContainsFunc(c.Points, func(p Point) bool { return p.ID == k.Point }) {
			faults = append(faults, fmt.Errorf("tokens: %s: token %d (%s) names point of sale %d, which the "+
				"configuration lacks", c.Tokens, k.ID, k.Name, k.Point))
		}
	}
	return errors.Join(faults...)
}

// Save replaces the token file; after a crash the old or the new file is there, complete.
func (t *TokenFile) Save(path string) error {
	b, err := toml.Marshal(t)
	if err != nil {
		return fmt.Errorf("encoding tokens: %w", err)
	}
	return WriteFile(path, b)
}
