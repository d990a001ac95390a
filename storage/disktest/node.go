package disktest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// A page is what Linux writes back at once, a sector what a disk does not tear.
const (
	page   = 4096
	sector = 512
)

// node is a file or a folder.
type node struct {
	// Of a folder: its entries as they are seen, and as they are on the medium.
	entries, durable map[string]*node
	// Of a file: its bytes as they are seen, those on the medium, and the pages that a sync would write.
	data, medium []byte
	dirty        map[int]struct{}
}

func newFolder() *node {
	return &node{entries: make(map[string]*node), durable: make(map[string]*node)}
}
func newFile() *node { return &node{dirty: make(map[int]struct{})} }

func (n *node) writeAt(p []byte, at int) {
	if grow := at + len(p) - len(n.data); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	copy(n.data[at:], p)
	for i := at / page; i*page < at+len(p); i++ {
		n.dirty[i] = struct{}{}
	}
}

// write brings the dirty pages to the medium. Clean ones stay as they are there: one whose sync failed is old, or zeros.
func (n *node) write() {
	if n.entries != nil {
		return
	}
	n.size(len(n.data))
	for i := range n.dirty {
		copy(n.medium[i*page:], n.data[i*page:min((i+1)*page, len(n.data))])
	}
	clear(n.dirty)
}

func (n *node) size(length int) {
	if grow := length - len(n.medium); grow > 0 {
		n.medium = append(n.medium, make([]byte, grow)...)
	}
}

func (n *node) evict() {
	for i := 0; i*page < len(n.data); i++ {
		if _, dirty := n.dirty[i]; dirty {
			continue
		}
		seen := n.data[i*page : min((i+1)*page, len(n.data))]
		clear(seen)
		if i*page < len(n.medium) {
			copy(seen, n.medium[i*page:])
		}
	}
}

// crash copies what a power cut leaves of a node and all below it. A file with two names stays one file.
func (n *node) crash(rules Rules, percent int, rng *rand.Rand, kept map[*node]map[string]*node, copies map[*node]*node) *node {
	if c := copies[n]; c != nil {
		return c
	}
	if n.entries == nil {
		c := newFile()
		copies[n] = c
		c.medium = slices.Clone(n.medium)
		n.tear(c, rules, percent, rng)
		c.data = slices.Clone(c.medium)
		return c
	}
	c := newFolder()
	copies[n] = c
	entries, altered := kept[n]
	if !altered {
		entries = n.durable
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) { // in order: the same seed, the same disk
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
	durable := len(c.medium)
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		for at := i * page; at < min((i+1)*page, len(n.data)); at += sector {
			appended := rules == Ordered && at+sector > durable
			if percent < 100 && rng.IntN(100) >= percent {
				if appended {
					return // a beginning survives
				}
				continue
			}
			end := min(at+sector, len(n.data))
			c.size(end)
			copy(c.medium[at:], n.data[at:end])
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
		c.data, c.medium = slices.Clone(n.data), slices.Clone(n.data)
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
