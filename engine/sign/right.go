package sign

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
)

// ErrSpent means that a right to sign was used a second time.
var ErrSpent = errors.New("this right to sign is spent")

// Signer signs documents, no more at a time than the machine has cores: more would only wait longer, together.
type Signer struct {
	key  *Key
	gate chan struct{}
}

// New returns a signer. parallel is the number of signatures at a time, 0 for the number of cores.
func New(k *Key, parallel int) *Signer {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	return &Signer{key: k, gate: make(chan struct{}, parallel)}
}

// Right is the right to sign one form of one document, once.
type Right struct {
	signer *Signer
	code   [16]byte
	form   string
	spent  atomic.Bool
}

// Right makes the right to sign a document in a form (normal, or contingency). Nothing else signs.
func (s *Signer) Right(code [16]byte, form string) *Right {
	return &Right{signer: s, code: code, form: form}
}

// Sign spends the right: it returns the JWS compact, RS512, header {"alg":"RS512"} and nothing else, whose payload is
// exactly the bytes given (MH's signer, svfe-api-firmador 2.0.0). ErrSpent the second time, whatever the first gave.
func (r *Right) Sign(ctx context.Context, payload []byte) (string, error) {
	if r.spent.Swap(true) {
		return "", fmt.Errorf("%w: %s form of %x", ErrSpent, r.form, r.code)
	}
	select {
	case r.signer.gate <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("waiting to sign: %w", ctx.Err())
	}
	defer func() { <-r.signer.gate }()
	return signCompact(r.signer.key, payload)
}

func signCompact(k *Key, payload []byte) (string, error) {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS512, Key: k.private}, nil)
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	jws, err := s.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	return text, nil
}
