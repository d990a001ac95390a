package disktest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Linux writes back whole pages. A disk writes a sector either completely or not at all.
const (
	page   = 4096
	sector = 512
)

// node is a file or a folder.
type node struct {
	// Of a folder: its entries as programs see them, and as they are on the medium.
	entries, durable map[string]*node
	// Of a file: its bytes as programs see them, those on the medium, and the pages that a sync would write.
	data, medium content
	dirty        map[int]struct{}
}

// content is copied when it is written, not when a disk is copied: most files of a store are never written again.
type content struct {
	b      []byte
	shared bool // another file has the same bytes: copy them before writing
}

// share returns the same bytes for another file.
func (s *content) share() content {
	s.shared = true
	return content{s.b[:len(s.b):len(s.b)], true}
}

// own returns the bytes to be written.
func (s *content) own() []byte {
	if s.shared {
		s.b, s.shared = slices.Clone(s.b), false
	}
	return s.b
}

// grow appends zeros up to a length, unless the content is longer.
func (s *content) grow(length int) {
	if more := length - len(s.b); more > 0 {
		s.b = append(s.own(), make([]byte, more)...)
	}
}

func newFolder() *node {
	return &node{entries: make(map[string]*node), durable: make(map[string]*node)}
}
func newFile() *node { return &node{dirty: make(map[int]struct{})} }

func (n *node) writeAt(p []byte, at int) {
	n.data.grow(at + len(p))
	copy(n.data.own()[at:], p)
	for i := at / page; i*page < at+len(p); i++ {
		n.dirty[i] = struct{}{}
	}
}

func (n *node) truncate(length int) {
	if length > len(n.data.b) {
		n.writeAt(make([]byte, length-len(n.data.b)), len(n.data.b))
		return
	}
	n.data.b = n.data.own()[:length]
	for i := range n.dirty {
		if i*page >= length {
			delete(n.dirty, i)
		}
	}
	clear(n.data.b[length:cap(n.data.b)]) // a later write beyond the end must find zeros here
	if length > 0 {
		n.dirty[(length-1)/page] = struct{}{}
	}
}

// write brings the dirty pages to the medium. Clean pages on the medium do not change: a page whose sync failed is
// still old there, or zeros.
func (n *node) write() {
	if n.entries != nil {
		return
	}
	n.medium.grow(len(n.data.b))
	if n.medium.b = n.medium.b[:len(n.data.b)]; len(n.dirty) > 0 {
		medium := n.medium.own()
		for i := range n.dirty {
			copy(medium[i*page:], n.data.b[i*page:min((i+1)*page, len(n.data.b))])
		}
	}
	clear(n.dirty)
}

func (n *node) evict() {
	data := n.data.own()
	for i := 0; i*page < len(data); i++ {
		if _, dirty := n.dirty[i]; dirty {
			continue
		}
		seen := data[i*page : min((i+1)*page, len(data))]
		clear(seen)
		if i*page < len(n.medium.b) {
			copy(seen, n.medium.b[i*page:])
		}
	}
}

// crash copies what a power cut leaves of a node and all below it. A file with two names stays one file.
func (n *node) crash(rules Rules, percent int, rng *rand.Rand, kept map[*node]map[string]*node,
	copies map[*node]*node) *node {
	if c := copies[n]; c != nil {
		return c
	}
	if n.entries == nil {
		c := newFile()
		copies[n] = c
		c.medium = n.medium.share()
		n.tear(c, rules, percent, rng)
		c.data = c.medium.share()
		return c
	}
	c := newFolder()
	copies[n] = c
	entries, altered := kept[n]
	if !altered {
		entries = n.durable
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) { // sorted: the same seed gives the same disk
		c.entries[name] = entries[name].crash(rules, percent, rng, kept, copies)
	}
	c.durable = maps.Clone(c.entries)
	return c
}

// tear lets some of a file's dirty sectors reach the medium.
func (n *node) tear(c *node, rules Rules, percent int, rng *rand.Rand) {
	if percent <= 0 {
		return
	}
	durable := len(c.medium.b)
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		for at := i * page; at < min((i+1)*page, len(n.data.b)); at += sector {
			appended := rules == Ordered && at+sector > durable
			if percent < 100 && rng.IntN(100) >= percent {
				if appended {
					return // of appended bytes only a beginning survives
				}
				continue
			}
			end := min(at+sector, len(n.data.b))
			c.medium.grow(end)
			copy(c.medium.own()[at:], n.data.b[at:end])
		}
	}
}

// copy copies a node and all below it, as it is seen.
func (n *node) copy(copies map[*node]*node) *node {
	c := copies[n]
	switch {
	case c != nil:
	case n.entries == nil:
		c = newFile()
		c.data, c.medium = n.data.share(), n.data.share()
	default:
		c = newFolder()
		for name, child := range n.entries {
			c.entries[name] = child.copy(copies)
		}
		c.durable = maps.Clone(c.entries)
	}
	copies[n] = c
	return c
}
