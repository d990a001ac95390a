// Package fleetproto is what the boxes of a chain and its centre say to each other through an object store: the keys of
// the objects, what is in each, who signs it, and the two operations that the store must keep. It does no I/O of its
// own.
//
//	fleet/v1/rules/<sha256>                   a signed bundle                                           created once
//	fleet/v1/settings/<sha256>                Settings                                                  created once
//	fleet/v1/desired/<group>/<12 digits>.jws  Desired: what a group shall run       director            created once
//	fleet/v1/boxes/<branch>/<epoch>.jws       Enrolment: whose branch it is         director            created once
//	fleet/v1/status/<branch>/<epoch>.jws      Status: how the branch is             the box             overwritten by the box
//	fleet/v1/acts/<branch>/<n>.jws            Act: what happened in the branch      the box             created once
//	copy/v1/<branch>/<epoch>/<segment>        a segment of the second copy's log                        created once
//	copy/v1/<branch>/<epoch>/part/<n>-<n>     the same bytes as the segments of these numbers           created once
//	copy/v1/<branch>/<epoch>/whole.jws        WholeCopy: the log is in the store      the box             created once
//
// Every .jws is a flattened JWS with one Ed25519 signature, read by the reader of the rule bundles (rules/signed). The
// payload names what it is and its chain (Head), whose it is, and its number, therefore no object can stand in for
// another. Times are RFC 3339.
//
// The director's key says which bundle, where and from when. It cannot make a bundle: those bear the signatures of the
// rules' keys, which the box checks as it does for a bundle that somebody pushes.
package fleetproto

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrExists: something rests under the key already, these bytes or others. It may have been put there by an earlier
	// attempt of the same caller whose answer was lost: who needs to know reads it.
	ErrExists = errors.New("the store holds an object under this key")
	// ErrNotFound: nothing rests under the key.
	ErrNotFound = errors.New("the store holds no object under this key")
	// ErrTooLarge: what rests there is larger than the caller takes.
	ErrTooLarge = errors.New("the object is larger than it may be")
	// ErrRefused: the store refuses the account or has no room. It stays so until somebody changes something.
	ErrRefused = errors.New("the chain's store refuses")
)

// Store is all that a box asks of the object store. Any error but those above is of the attempt: the request may or may
// not have been carried out. Safe for concurrent use.
type Store interface {
	// Create writes an object where nothing is (If-None-Match: *). Errors: ErrExists.
	Create(ctx context.Context, key string, data []byte) error
	// Put writes an object, whatever is there. Each key has one writer.
	Put(ctx context.Context, key string, data []byte) error
	// Get reads an object of at most limit bytes. Errors: ErrNotFound, ErrTooLarge.
	Get(ctx context.Context, key string, limit int64) (Object, error)
}

// Lister is a Store that shows which objects it has. A box lists its own copy only.
type Lister interface {
	Store
	// List yields the objects whose key begins so, ordered by key.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]
	// ListAfter is List without the keys up to one.
	ListAfter(ctx context.Context, prefix, after string) iter.Seq2[Entry, error]
}

// Object is an object of the store.
type Object struct {
	Data []byte
	// Modified is when it was written, and Now when the store answered, both by the store's clock. Now is zero where
	// the answer bore no time.
	Modified, Now time.Time
}

// Entry is an object of a List.
type Entry struct {
	Key      string
	Size     int64     // in bytes
	Modified time.Time // by the store's clock
	Tag      string    // the store's own name for these bytes (ETag): when it is the same again, they are
}

// Folders of the store, for List.
const (
	DesiredRoot  = "fleet/v1/desired/"
	BoxesFolder  = "fleet/v1/boxes/"
	StatusFolder = "fleet/v1/status/"
	ActsFolder   = "fleet/v1/acts/"
	CopyFolder   = "copy/v1/"
)

// The largest objects that are read, in bytes.
const (
	MaxRule     = 32 << 20
	MaxSettings = 64 << 10
	MaxJWS      = 1 << 20 // Desired, Enrolment, Status, Act
	MaxSegment  = 64 << 20
)

// Digest returns the SHA-256 of an object's bytes in hex. The objects of rules and settings have it as their name.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// RuleKey returns the key of a bundle's file; digest is the Digest of the file. It is not the digest in records, which
// is of the signed manifest.
func RuleKey(digest string) string { return "fleet/v1/rules/" + digest }

// SettingsKey returns the key of a settings file; digest is its Digest.
func SettingsKey(digest string) string { return "fleet/v1/settings/" + digest }

// DesiredKey returns the key of a version of what a group shall run; the first version is 1.
func DesiredKey(group string, version int64) string {
	return fmt.Sprintf("%s%012d.jws", DesiredFolder(group), version)
}

// DesiredFolder returns the folder of a group's versions.
func DesiredFolder(group string) string { return DesiredRoot + group + "/" }

// BoxKey returns the key of a branch's enrolment; the first epoch is 1.
func BoxKey(branch string, epoch int64) string {
	return BoxesFolder + branch + "/" + strconv.FormatInt(epoch, 10) + ".jws"
}

// StatusKey returns the key of the status that a branch's box of an epoch writes; a box that is not enrolled yet writes
// epoch 0.
func StatusKey(branch string, epoch int64) string {
	return StatusFolder + branch + "/" + strconv.FormatInt(epoch, 10) + ".jws"
}

// ActKey returns the key of a branch's act; the first act is 1.
func ActKey(branch string, number int64) string {
	return fmt.Sprintf("%s%s/%012d.jws", ActsFolder, branch, number)
}

// EpochFolder returns the folder of what one box of a branch has shipped.
func EpochFolder(branch string, epoch int64) string {
	return fmt.Sprintf("%s%s/%d/", CopyFolder, branch, epoch)
}

// PiecesPrefix is what the keys of all pieces of an epoch begin with, and no other key.
func PiecesPrefix(branch string, epoch int64) string { return EpochFolder(branch, epoch) + "0" }

// PartsFolder returns the folder of an epoch's parts.
func PartsFolder(branch string, epoch int64) string { return EpochFolder(branch, epoch) + "part/" }

// SegmentKey returns the key of a segment of a branch's second copy; the first segment is 1.
func SegmentKey(branch string, epoch, segment int64) string {
	return fmt.Sprintf("%s%012d", EpochFolder(branch, epoch), segment)
}

// PartKey returns the key of the part that holds the pieces from one to another.
func PartKey(branch string, epoch, first, last int64) string {
	return fmt.Sprintf("%s%012d-%012d", PartsFolder(branch, epoch), first, last)
}

// WholeKey returns the key of the WholeCopy of a branch's epoch.
func WholeKey(branch string, epoch int64) string {
	return EpochFolder(branch, epoch) + "whole.jws"
}

// StatusOf returns the branch and the epoch of a key of StatusFolder; false if it is no such key.
func StatusOf(key string) (branch string, epoch int64, ok bool) {
	branch, name, _ := strings.Cut(strings.TrimPrefix(key, StatusFolder), "/")
	epoch, err := strconv.ParseInt(strings.TrimSuffix(name, ".jws"), 10, 64)
	return branch, epoch, err == nil && epoch >= 0 && CheckName(branch) == nil && key == StatusKey(branch, epoch)
}

// NumberOf returns the number at the end of a key of versions, epochs or acts; false if it has none.
func NumberOf(key string) (int64, bool) {
	name, ok := strings.CutSuffix(key[strings.LastIndexByte(key, '/')+1:], ".jws")
	n, err := strconv.ParseInt(name, 10, 64)
	return n, ok && err == nil && n > 0
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// emptyOrDigest reports whether a text that may be left out is a Digest.
func emptyOrDigest(text string) bool { return text == "" || digestForm.MatchString(text) }

const maxName = 63

// CheckName returns an error that names what is wrong with the name of a branch, a group, a roll-out or a key. A name
// has at most 63 characters: lower-case letters, digits, and single hyphens between them.
func CheckName(name string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name: lower-case letters, digits and single hyphens between them, at most %d", name,
			maxName)
	}
	return nil
}
