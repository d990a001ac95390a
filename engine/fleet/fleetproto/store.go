// Package fleetproto defines the protocol between a chain's boxes and its centre through an object store: the objects'
// keys, contents and signers, and the operations that the store must offer. It does no I/O of its own.
//
//	fleet/v1/rules/<sha256>                   a signed bundle                                           never altered
//	fleet/v1/settings/<sha256>                Settings                                                  never altered
//	fleet/v1/desired/<group>/<12 digits>.jws  Desired: what a group shall run       director            once or put back
//	fleet/v1/boxes/<branch>/<epoch>.jws       Enrolment: which box has a branch     director            may be replaced
//	fleet/v1/status/<branch>/<epoch>.jws      Status: the state of the branch       the box             overwritten
//	fleet/v1/acts/<branch>/<n>.jws            Act: what happened in the branch      the box             created once
//	copy/v1/<branch>/<epoch>/<piece>          Piece: bytes of the second copy       the box             created once
//	copy/v1/<branch>/<epoch>/part/<n>-<n>     a part: the bytes of several pieces   the box             may be replaced
//	copy/v1/<branch>/<epoch>/whole.jws        WholeCopy: the copy is in the store   the box             may be replaced
//
// Every .jws is a flattened JWS with one Ed25519 signature, read by the reader of the rule bundles (rules/signed). The
// payload names its kind and chain (Head), its owner and its number, so that no object can replace another. Times are
// RFC 3339.
//
// The director's key decides which bundle runs, where and from when. This key cannot make a bundle: the keys for rules
// sign bundles, and the box verifies these signatures as for any bundle.
package fleetproto

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"dtegate/engine/archive"
)

// Store has the operations that a box needs from the object store; *archive.Archive implements it. After an error not
// named here, the request may have been carried out. Methods may be called concurrently.
type Store interface {
	// Create writes an object under a key that has no object yet (If-None-Match: *). Errors: archive.ErrExists, even if
	// the object is the caller's own, from an attempt whose answer was lost.
	Create(ctx context.Context, key string, data []byte) error
	// Overwrite writes an object, also in place of an existing object. Each key has one writer.
	Overwrite(ctx context.Context, key string, data []byte) error
	// Fetch reads an object of at most limit bytes. Errors: archive.ErrNotFound, archive.ErrTooLarge.
	Fetch(ctx context.Context, key string, limit int64) (archive.Held, error)
}

// Lister is a Store that can list its objects. A box lists its own copy only.
type Lister interface {
	Store
	// List yields the objects whose key begins with prefix, ordered by key.
	List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error]
	// ListAfter is List for the objects whose key is greater than a key (after).
	ListAfter(ctx context.Context, prefix, after string) iter.Seq2[archive.Object, error]
}

// File is a small file on the box that is always replaced as a whole.
type File interface {
	// Load returns the file's bytes, or no bytes if there is no file.
	Load() ([]byte, error)
	// Save replaces the file; when it returns, the file is durable.
	Save([]byte) error
}

// Folders of the store, for List.
const (
	DesiredRoot  = "fleet/v1/desired/"
	BoxesFolder  = "fleet/v1/boxes/"
	StatusFolder = "fleet/v1/status/"
	ActsFolder   = "fleet/v1/acts/"
	CopyFolder   = "copy/v1/"
)

// Maximum sizes of the objects that are read, in bytes.
const (
	MaxRule     = 32 << 20
	MaxSettings = 64 << 10
	MaxJWS      = 1 << 20 // Desired, Enrolment, Status, Act, WholeCopy
)

// Digest returns the SHA-256 of an object's bytes in hex. The objects of rules and settings are named by their Digest.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// RuleKey returns the key of a bundle's file; digest is the Digest of the file, not the digest of the signed manifest.
func RuleKey(digest string) string { return "fleet/v1/rules/" + digest }

// SettingsKey returns the key of a settings file; digest is its Digest.
func SettingsKey(digest string) string { return "fleet/v1/settings/" + digest }

// DesiredKey returns the key of a version of a group's desired state; the first version is 1.
func DesiredKey(group string, version int64) string {
	return fmt.Sprintf("%s%012d.jws", DesiredFolder(group), version)
}

// DesiredFolder returns the folder of a group's versions.
func DesiredFolder(group string) string { return DesiredRoot + group + "/" }

// BoxKey returns the key of a branch's enrolment; the first epoch is 1.
func BoxKey(branch string, epoch int64) string {
	return BoxesFolder + branch + "/" + strconv.FormatInt(epoch, 10) + ".jws"
}

// StatusKey returns the key of the status that a branch's box writes in an epoch. Before its enrolment, a box uses
// epoch 0.
func StatusKey(branch string, epoch int64) string {
	return StatusFolder + branch + "/" + strconv.FormatInt(epoch, 10) + ".jws"
}

// ActKey returns the key of a branch's act; the first act is 1.
func ActKey(branch string, number int64) string {
	return fmt.Sprintf("%s%s/%012d.jws", ActsFolder, branch, number)
}

// EpochFolder returns the folder of the copy that a branch's box of an epoch has shipped.
func EpochFolder(branch string, epoch int64) string {
	return fmt.Sprintf("%s%s/%d/", CopyFolder, branch, epoch)
}

// PiecesPrefix returns the prefix of the keys of all pieces of an epoch. No other key has this prefix.
func PiecesPrefix(branch string, epoch int64) string { return EpochFolder(branch, epoch) + "0" }

// PartsFolder returns the folder of an epoch's parts.
func PartsFolder(branch string, epoch int64) string { return EpochFolder(branch, epoch) + "part/" }

// SegmentKey returns the key of a piece of a branch's second copy; the first piece is 1.
func SegmentKey(branch string, epoch, segment int64) string {
	return fmt.Sprintf("%s%012d", EpochFolder(branch, epoch), segment)
}

// PartKey returns the key of the part that contains the pieces from first to last.
func PartKey(branch string, epoch, first, last int64) string {
	return fmt.Sprintf("%s%012d-%012d", PartsFolder(branch, epoch), first, last)
}

// WholeKey returns the key of the WholeCopy of a branch's epoch.
func WholeKey(branch string, epoch int64) string {
	return EpochFolder(branch, epoch) + "whole.jws"
}

// StatusOf returns the branch and the epoch of a key of StatusFolder. For another key below it, ok is false, and branch
// is the name of the folder in StatusFolder.
func StatusOf(key string) (branch string, epoch int64, ok bool) {
	branch, name, _ := strings.Cut(strings.TrimPrefix(key, StatusFolder), "/")
	epoch, _ = strconv.ParseInt(strings.TrimSuffix(name, ".jws"), 10, 64) // 0 for no number: then the keys differ
	return branch, epoch, epoch >= 0 && CheckName(branch) == nil && key == StatusKey(branch, epoch)
}

// NumberOf returns the number at the end of a key of a version, epoch or act; false if there is none.
func NumberOf(key string) (int64, bool) {
	name, ok := strings.CutSuffix(key[strings.LastIndexByte(key, '/')+1:], ".jws")
	n, err := strconv.ParseInt(name, 10, 64)
	return n, ok && err == nil && n > 0
}

var nameForm = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)

const maxName = 63

// CheckName returns what is wrong with the name of a branch, a group, a roll-out or a key; nil if it is correct. A name
// has at most 63 characters: lower-case letters, digits, and single hyphens between them.
func CheckName(name string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("%q is not a name: lower-case letters, digits and single hyphens between them, at most %d",
			name, maxName)
	}
	return nil
}
