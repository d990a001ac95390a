package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Folders of the store, for List.
const (
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

// RuleKey returns the key of a bundle's file; digest is the Digest of the file. It is not the digest in records, which is of
// the signed manifest.
func RuleKey(digest string) string { return "fleet/v1/rules/" + digest }

// SettingsKey returns the key of a settings file; digest is its Digest.
func SettingsKey(digest string) string { return "fleet/v1/settings/" + digest }

// DesiredKey returns the key of a version of what a group shall run; the first version is 1.
func DesiredKey(group string, version int64) string {
	return fmt.Sprintf("%s%012d.jws", DesiredFolder(group), version)
}

// DesiredFolder returns the folder of a group's versions.
func DesiredFolder(group string) string { return "fleet/v1/desired/" + group + "/" }

// BoxKey returns the key of a branch's enrolment; the first epoch is 1.
func BoxKey(branch string, epoch int64) string {
	return BoxesFolder + branch + "/" + strconv.FormatInt(epoch, 10) + ".jws"
}

// StatusKey returns the key of a branch's status.
func StatusKey(branch string) string { return StatusFolder + branch + ".jws" }

// ActKey returns the key of a branch's act; the first act is 1.
func ActKey(branch string, number int64) string {
	return fmt.Sprintf("%s%s/%012d.jws", ActsFolder, branch, number)
}

// SegmentKey returns the key of a segment of a branch's second copy; the first segment is 1.
func SegmentKey(branch string, epoch, segment int64) string {
	return fmt.Sprintf("%s%s/%d/%012d", CopyFolder, branch, epoch, segment)
}

// BaseKey returns the key of a base of a branch's second copy; the first base is 1.
func BaseKey(branch string, epoch, base int64) string {
	return fmt.Sprintf("%s%s/%d/base/%012d.jws", CopyFolder, branch, epoch, base)
}

// PartKey returns the key of a base's part; digest is the Digest of its bytes.
func PartKey(branch string, epoch int64, digest string) string {
	return fmt.Sprintf("%s%s/%d/part/%s", CopyFolder, branch, epoch, digest)
}

// WholeKey returns the key of the WholeCopy of a branch's epoch.
func WholeKey(branch string, epoch int64) string {
	return fmt.Sprintf("%s%s/%d/whole.jws", CopyFolder, branch, epoch)
}

// BranchOf returns the branch of a key of StatusFolder; false if it is no such key.
func BranchOf(key string) (string, bool) {
	name, folder := strings.CutPrefix(key, StatusFolder)
	name, status := strings.CutSuffix(name, ".jws")
	return name, folder && status && CheckName(name) == nil
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

const maxName = 63

// CheckName returns an error that names what is wrong with the name of a branch, a group, a roll-out or a key. A name has at
// most 63 characters: lower-case letters, digits, and single hyphens between them.
func CheckName(name string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name: lower-case letters, digits and single hyphens between them, at most %d", name, maxName)
	}
	return nil
}
