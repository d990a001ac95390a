package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"sync"
	"time"
)

//go:embed status.css
var statusStyle string

// What the pages may load: their own style, and nothing else. Values of Content-Security-Policy.
var (
	StatusPolicy    = policy(statusStyle)
	ReferencePolicy = policy(referenceStyle)
)

func policy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// StatusLife is how long the same status page is shown before it is made again.
const StatusLife = 3 * time.Second

// Status keeps the status page of each language for StatusLife. The zero value is ready.
type Status struct {
	mu   sync.Mutex
	made map[string]madePage
}

type madePage struct {
	at   time.Time
	html []byte
}

// Get returns the page in a language, es or en. If the page must be made again, it calls look for the branch's state.
func (p *Status) Get(lang string, now time.Time, look func() *Overview) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.made[lang]; ok && !now.Before(m.at) && now.Sub(m.at) < StatusLife {
		return m.html
	}
	b := renderStatus(lang, look())
	if p.made == nil {
		p.made = make(map[string]madePage)
	}
	p.made[lang] = madePage{now, b}
	return b
}
