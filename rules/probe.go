package rules

import "context"

// Probe is one instance of a module, for callers such as package abitest that need more than its answers. It is not safe for
// concurrent use.
type Probe struct{ i *instance }

// Probe starts an instance for the caller, who must close it.
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

// Send writes a message into the guest's buffer, with room bytes for the answer, and tells the guest that the message has
// length bytes, which need not be true. It returns the answer, valid until the next call, and the fuel that the call used of
// the budget. If the guest refuses the message, the error is ErrRefused. After any other error do not use the instance again.
func (p *Probe) Send(message []byte, room, length int, budget int64) (answer []byte, used int64, err error) {
	p.i.message = append(p.i.message[:0], message...)
	return p.i.exchange(room, length, budget)
}

// Memory returns the size of the guest's memory in bytes.
func (p *Probe) Memory() uint32 { return p.i.memory.Size() }

// Close ends the instance.
func (p *Probe) Close(ctx context.Context) error { return p.i.code.remove(ctx, p.i) }
