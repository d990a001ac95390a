package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// badBlocks remembers which blocks of tables are damaged, and fails reads of these at once. Pebble 2.1.7 looks, each time
// that a block's checksum is wrong, for the one bit that would make it right, and computes the checksum of 16 KiB 130,000
// times for that: half a second of a core for every read. A file of that name is always the same file.
type badBlocks struct {
	any atomic.Bool
	mu  sync.Mutex
	of  map[string][]block // by the file's name without its folder
}

// block is a stretch of a file, in bytes.
type block struct{ at, end int64 }

// badBlock is how Pebble names a block in its errors: offset and length.
var badBlock = regexp.MustCompile(`block (\d+)/(\d+):`)

// note remembers the block that an error of Pebble is about. An error in other words costs time only.
func (b *badBlocks) note(path string, err error) {
	found := badBlock.FindStringSubmatch(fmt.Sprint(err))
	if found == nil {
		return
	}
	at, _ := strconv.ParseInt(found[1], 10, 64)
	length, _ := strconv.ParseInt(found[2], 10, 64)
	b.add(path[strings.LastIndexByte(path, '/')+1:], block{at, at + length})
}

func (b *badBlocks) add(name string, bad block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = make(map[string][]block)
	}
	b.of[name] = append(b.of[name], bad)
	b.any.Store(true)
}

// hit tells whether a read reaches a bad block.
func (b *badBlocks) hit(name string, at, end int64) bool {
	if !b.any.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.of[name] {
		if at < k.end && k.at < end {
			return true
		}
	}
	return false
}

// badBlocksFS is a filesystem whose bad blocks are known.
type badBlocksFS struct {
	vfs.FS
	bad  *badBlocks
	tell func(path, what string) // of a block that was found damaged here
}

// Open implements vfs.FS.
func (f badBlocksFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return badBlocksFile{file, f.PathBase(name), f.bad, func(what string) { f.tell(name, what) }}, nil
}

// Unwrap implements vfs.FS.
func (f badBlocksFS) Unwrap() vfs.FS { return f.FS }

type badBlocksFile struct {
	vfs.File
	name string
	bad  *badBlocks
	tell func(what string)
}

// ReadAt implements vfs.File.
func (f badBlocksFile) ReadAt(p []byte, at int64) (int, error) {
	if f.bad.hit(f.name, at, at+int64(len(p))) {
		return 0, fmt.Errorf("%s: a block at byte %d is damaged: %w", f.name, at, syscall.EIO)
	}
	n, err := f.File.ReadAt(p, at)
	if err == nil && len(p) >= largeBlock && !wholeBlock(p) {
		f.bad.add(f.name, block{at, at + int64(len(p))})
		what := fmt.Sprintf("the block of %d bytes at byte %d is damaged, its checksum is wrong", len(p), at)
		f.tell(what)
		return 0, fmt.Errorf("%s: %s: %w", f.name, what, syscall.EIO)
	}
	return n, err
}

// largeBlock is the length in bytes from which a block's checksum is compared here, before Pebble does. Pebble's search for the
// turned bit takes time with the square of the length: with the bundle of a rule, of 600 KiB, 14 s for every reader and every
// start. Pebble reads nothing that long of a table but whole blocks.
const largeBlock = 32 << 10

// wholeBlock compares a block, its kind (1 byte) and its checksum (4 bytes), as Pebble writes them: CRC-32C, masked as in LevelDB.
func wholeBlock(p []byte) bool {
	sum := crc32.Checksum(p[:len(p)-4], castagnoli)
	return binary.LittleEndian.Uint32(p[len(p)-4:]) == (sum>>15|sum<<17)+0xa282ead8
}
