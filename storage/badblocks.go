package storage

import (
	"fmt"
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
	name := path[strings.LastIndexByte(path, '/')+1:]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = make(map[string][]block)
	}
	b.of[name] = append(b.of[name], block{at, at + length})
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
	bad *badBlocks
}

// Open implements vfs.FS.
func (f badBlocksFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return badBlocksFile{file, f.PathBase(name), f.bad}, nil
}

// Unwrap implements vfs.FS.
func (f badBlocksFS) Unwrap() vfs.FS { return f.FS }

type badBlocksFile struct {
	vfs.File
	name string
	bad  *badBlocks
}

// ReadAt implements vfs.File.
func (f badBlocksFile) ReadAt(p []byte, at int64) (int, error) {
	if f.bad.hit(f.name, at, at+int64(len(p))) {
		return 0, fmt.Errorf("%s: a block at byte %d is damaged: %w", f.name, at, syscall.EIO)
	}
	return f.File.ReadAt(p, at)
}
