package rules

import "context"

// Probe is one instance of a module for whoever must see more of it than its answers: package abitest. It is not
// safe for concurrent use.
type Probe struct{ i *instance }

// Probe starts an instance of its own. Close it.
func (m *Module) Probe(ctx context.Context) (*Probe, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	i, err := m.code.add(ctx)
	if err != nil {
		return nil, err
	}
	return &Probe{i}, nil
}

// Send lays a message into the guest's buffer, with room for an answer of so many bytes, and says that it has length
// bytes, true or not. It gives the answer, good until the next call, and the fuel that was used of the budget. A message
// that the guest refuses is an ErrRefused. After any other error the instance is not to be trusted.
func (p *Probe) Send(message []byte, room, length int, budget int64) (answer []byte, used int64, err error) {
	p.i.message = append(p.i.message[:0], message...)
	return p.i.exchange(room, length, budget)
}

// Memory is the size of the guest's memory in bytes.
func (p *Probe) Memory() uint32 { return p.i.memory.Size() }

// Close ends the instance.
func (p *Probe) Close(ctx context.Context) error { return p.i.code.remove(ctx, p.i) }
