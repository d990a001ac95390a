package storage

import (
	"slices"
	"sync"
)

// pending knows which records have a change in the log that the disk does not have yet. Pebble shows a write before it
// is durable; readers look here and wait, so that nobody acts on what a crash would take back.
type pending struct {
	mu      sync.Mutex
	records map[Code][]chan struct{}
}

// begin must come before the change is applied, and the returned function after it is durable. It fails when code has
// a change under way; origins may have any number.
func (p *pending) begin(code Code, origins []Code) (settle func(), ok bool) {
	done := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records[code]) > 0 {
		return nil, false
	}
	p.records[code] = append(p.records[code], done)
	for _, o := range origins {
		p.records[o] = append(p.records[o], done)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.remove(code, done)
		for _, o := range origins {
			p.remove(o, done)
		}
		close(done)
	}, true
}

func (p *pending) remove(code Code, done chan struct{}) {
	left := slices.DeleteFunc(p.records[code], func(c chan struct{}) bool { return c == done })
	if len(left) == 0 {
		delete(p.records, code)
		return
	}
	p.records[code] = left
}

// wait returns when every change of the record that was under way is durable. Read first, then wait: what was read is
// durable then.
func (p *pending) wait(code Code) {
	for {
		p.mu.Lock()
		list := p.records[code]
		if len(list) == 0 {
			p.mu.Unlock()
			return
		}
		done := list[len(list)-1]
		p.mu.Unlock()
		<-done
	}
}

// ids gives out record ids and knows the lowest one whose record may still appear.
type ids struct {
	mu   sync.Mutex
	next uint64
	busy map[uint64]struct{}
}

func (i *ids) take() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	id := i.next
	i.next++
	i.busy[id] = struct{}{}
	return id
}

func (i *ids) drop(id uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.busy, id)
}

// floor is the id below which every record is durable or will never be.
func (i *ids) floor() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	floor := i.next
	for id := range i.busy {
		floor = min(floor, id)
	}
	return floor
}
