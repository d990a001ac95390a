package storage

import "sync"

// names holds the sequence id of every series. Ids are dense from 1; one that was given to a series whose first record
// failed stays with it until the process ends.
type names struct {
	mu       sync.RWMutex
	sequence map[string]uint32
	name     map[uint32]string
	last     uint32
}

func (n *names) add(name string, sequence uint32) {
	if n.name == nil {
		n.sequence, n.name = make(map[string]uint32), make(map[uint32]string)
	}
	n.sequence[name], n.name[sequence], n.last = sequence, name, max(n.last, sequence)
}

// sequenceOf returns the sequence id of a series, a new one if need be.
func (n *names) sequenceOf(name string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sequence[name] == 0 {
		n.add(name, n.last+1)
	}
	return n.sequence[name]
}

func (n *names) named(sequence uint32) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.name[sequence]
}

// all returns the names in the order of their ids, from 1.
func (n *names) all() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := make([]string, n.last)
	for sequence, name := range n.name {
		list[sequence-1] = name
	}
	return list
}

func (n *names) highest() uint32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.last
}
