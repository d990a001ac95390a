package gateway

import (
	_ "embed"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/shelf"
)

// Overview is what the status page shows. It holds no secret and no customer. Times are zero where there is none.
type Overview struct {
	At, Started time.Time
	Version     string
	Ambiente    string // CAT-001
	Branch      int64
	Name        string // what people call the store; "": its number
	// Stopped is why nothing new is issued, nil when the branch issues.
	Stopped error
	MH      Reach
	Owed    *engine.Owed
	Today   engine.Today
	// Authorisation is nil outside of the test ambiente.
	Authorisation *engine.Authorisation
	Rules         *shelf.Listing
	// Month is nil while it is counted for the first time.
	Month *Month
	// SecondCopy is nil when none is configured; Mail and Archive are false then.
	SecondCopy    *SecondCopy
	Mail, Archive bool
	// Free and Reserve are bytes of the store's disk; below Reserve nothing is issued.
	Free, Reserve int64
	// Skew is the box's clock less MH's, nil before MH's first answer.
	Skew    *time.Duration
	Expires []Expiry
	Trouble []Trouble // the newest first
}

// Reach is whether MH answered the last call.
type Reach struct {
	Asked bool // there was a call
	Up    bool
	Since time.Time // it has been so
	Last  time.Time // the last answer
	Why   string    // it is not up
}

// SecondCopy is how the second copy is.
type SecondCopy struct {
	Live  bool
	Since time.Time
	Why   string
}

// Expiry is a certificate that ends: signing, MH's for the key; api or ops, of a listener; or ca, the box's own authority.
type Expiry struct {
	Name string
	At   time.Time
}

// Trouble is a warning or an error of the log, with how often it came.
type Trouble struct {
	At    time.Time
	Error bool // else a warning
	// Message is the line's constant part, Text the whole line with its attributes.
	Message, Text string
	Count         int
}

//go:embed pages/status.css
var statusStyle string

// pageLife is how long a page is shown again before another is made.
const pageLife = 3 * time.Second

// pages keeps the page of each language for pageLife.
type pages struct {
	mu   sync.Mutex
	made map[string]madePage
}

type madePage struct {
	at   time.Time
	html []byte
}

// page answers GET / of the operators' listener.
func (g *Gateway) page(ctx *fasthttp.RequestCtx) {
	header := &ctx.Response.Header
	header.SetContentType("text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept-Language")
	secure(ctx, statusStyle)
	ctx.SetBody(g.pages.get(language(ctx), g.o.Now(), g.o.Overview))
}

func (p *pages) get(lang string, now time.Time, look func() *Overview) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.made[lang]; ok && !now.Before(m.at) && now.Sub(m.at) < pageLife {
		return m.html
	}
	b := renderPage(lang, look())
	if p.made == nil {
		p.made = make(map[string]madePage)
	}
	p.made[lang] = madePage{now, b}
	return b
}

// language is that of ?lang=, else the first of Accept-Language that there is, else Spanish.
func language(ctx *fasthttp.RequestCtx) string {
	wanted := string(ctx.QueryArgs().Peek("lang")) + "," + string(ctx.Request.Header.Peek("Accept-Language"))
	for _, one := range strings.Split(wanted, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(one), ";")
		tag, _, _ = strings.Cut(strings.ToLower(tag), "-")
		if tag == "es" || tag == "en" {
			return tag
		}
	}
	return "es"
}
