package gateway

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// linkLife is how long a signed link works (SPEC section 8).
const linkLife = 300 * time.Second

var (
	formats = []string{"view", "download", "url", "base64", "escpos"}
	layouts = []string{"letter", "ticket80", "ticket58"}
)

// printed answers GET /dte/pdf/:codigoGeneracion?format=&layout= (SPEC 4.7).
func (g *Gateway) printed(c *call) error {
	q := &c.query
	format := q.pick("format", "view", formats...)
	allowed, preset := layouts, "letter"
	if format == "escpos" {
		allowed, preset = layouts[1:], "ticket80"
	}
	layout := q.pick("layout", preset, allowed...)
	if err := q.err(); err != nil {
		return err
	}
	if format == "url" {
		return g.link(c, layout)
	}
	b, err := g.o.Outbox.Printed(c.deadline, c.code, c.caller, layout, format == "escpos")
	if err != nil {
		return err
	}
	if format == "base64" {
		return c.answer(reply.Printed(c.code, c.code.String()+".pdf", b))
	}
	printedFile(c.ctx, format, c.code.String(), b)
	return nil
}

func printedFile(ctx *fasthttp.RequestCtx, format, name string, b []byte) {
	switch format {
	case "view":
		file(ctx, "application/pdf", "inline", name+".pdf", b)
	case "download":
		file(ctx, "application/pdf", "attachment", name+".pdf", b)
	default:
		file(ctx, "application/octet-stream", "attachment", name+".escpos", b)
	}
}

// file answers with a file, or with 304 if the caller already has it.
func file(ctx *fasthttp.RequestCtx, kind, disposition, name string, b []byte) {
	respondTagged(ctx, kind, disposition, name, tagOf(b), b)
}

func tagOf(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

func respondTagged(ctx *fasthttp.RequestCtx, kind, disposition, name, tag string, b []byte) {
	header := &ctx.Response.Header
	header.Set("ETag", tag)
	header.Set("Cache-Control", "private, no-cache") // a client may keep the file, but must validate it each time
	header.Set("Content-Disposition", disposition+`; filename="`+name+`"`)
	header.Set("X-Content-Type-Options", "nosniff")
	if matches(string(ctx.Request.Header.Peek("If-None-Match")), tag) {
		ctx.NotModified()
		header.Set("ETag", tag) // NotModified resets the answer
		header.Set("Cache-Control", "private, no-cache")
		return
	}
	header.SetContentType(kind)
	ctx.Response.SetBodyRaw(b)
}

// matches reports whether If-None-Match names a tag (RFC 9110 §13.1.2).
func matches(header, tag string) bool {
	return slices.ContainsFunc(strings.Split(header, ","), func(one string) bool {
		one = strings.TrimSpace(one)
		return one == "*" || strings.TrimPrefix(one, "W/") == tag
	})
}

// archivo answers GET /dte/json/:codigoGeneracion with the JSON file that the law requires for the receiver.
func (g *Gateway) archivo(c *call) error {
	b, err := g.o.Outbox.Archivo(c.deadline, c.code, c.caller)
	if err == nil {
		file(c.ctx, "application/json; charset=utf-8", "attachment", c.code.String()+".json", b)
	}
	return err
}

// storedFile answers GET /<slug>/DTES/…, the paths in a record's dteJsonUrl and dtePdfUrl (SPEC 2.2).
func (g *Gateway) storedFile(c *call) error {
	asked := strings.TrimPrefix(string(c.ctx.Path()), "/")
	name := path.Base(asked)
	missing := problem.ForTill(refusal.CodeNotFound, "No existe un documento en esta ruta")
	code, err := dte.ParseCode(strings.TrimSuffix(name, path.Ext(name)))
	if err != nil {
		return missing
	}
	r, err := g.o.Documents.Document(c.deadline, code, c.caller)
	if err != nil {
		return err
	}
	var b []byte
	kind := "application/pdf"
	switch asked {
	case r.JSONURL:
		kind = "application/json; charset=utf-8"
		b, err = g.o.Outbox.Archivo(c.deadline, code, c.caller)
	case r.PDFURL:
		b, err = g.o.Outbox.Printed(c.deadline, code, c.caller, "letter", false)
	default:
		err = missing
	}
	if err == nil {
		file(c.ctx, kind, "inline", name, b)
	}
	return err
}

// link answers GET /dte/pdf?format=url with a link that anybody can open during linkLife. It leads to the archive if
// the archive has the document, else to this appliance.
func (g *Gateway) link(c *call, layout string) error {
	c.ctx.SetUserValue(loggedAlways, true) // because anybody can open the link
	url, err := g.o.Outbox.Link(c.deadline, c.code, c.caller, layout, linkLife)
	if err != nil {
		return err
	}
	if url == "" {
		// If the document cannot be printed, refuse now, not when somebody opens the link.
		if _, err := g.o.Outbox.Archivo(c.deadline, c.code, c.caller); err != nil {
			return err
		}
		base := cmp.Or(strings.TrimSuffix(g.o.PublicURL, "/"),
			map[bool]string{false: "http://", true: "https://"}[c.ctx.IsTLS()]+string(c.ctx.Host()))
		url = base + "/dte/descarga/" + c.code.String() + "?token=" + g.tokens.Load().pass(c.code, layout,
			c.caller.Point.BranchID, g.o.Now().Add(linkLife))
	}
	return c.answer(reply.Link(c.code, url, linkLife))
}

// pass returns the token of a link: the link's expiry, the layout, the branch, and an HMAC of these values and code.
// The HMAC's key is derived from the token table's secret: a new secret ends all links.
func (t *TokenTable) pass(code dte.Code, layout string, branch int64, until time.Time) string {
	claims := fmt.Sprintf("%s.%s.%s", strconv.FormatInt(until.Unix(), 36), layout, strconv.FormatInt(branch, 36))
	return claims + "." + base64.RawURLEncoding.EncodeToString(t.seal(code, claims))
}

func (t *TokenTable) seal(code dte.Code, claims string) []byte {
	derive := hmac.New(sha256.New, t.secret)
	derive.Write([]byte("dtegate link v1"))
	mac := hmac.New(sha256.New, derive.Sum(nil))
	mac.Write(code[:])
	mac.Write([]byte(claims))
	return mac.Sum(nil)
}

// admit returns the layout and the branch in the token of a link. ok is false if the token is forged or has expired.
func (t *TokenTable) admit(code dte.Code, pass string, now time.Time) (layout string, branch int64, ok bool) {
	parts := strings.Split(pass, ".")
	if len(parts) != 4 {
		return "", 0, false
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
	if err != nil || !hmac.Equal(mac, t.seal(code, strings.Join(parts[:3], "."))) {
		return "", 0, false
	}
	until, err := strconv.ParseInt(parts[0], 36, 64)
	if err != nil || now.Unix() >= until {
		return "", 0, false
	}
	branch, err = strconv.ParseInt(parts[2], 36, 64)
	return parts[1], branch, err == nil
}

// linked answers GET /dte/descarga/:codigoGeneracion?token= to anybody who has the link.
func (g *Gateway) linked(ctx *fasthttp.RequestCtx) error {
	if err := g.stranger(ctx); err != nil {
		return err
	}
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	layout, branch, ok := g.tokens.Load().admit(code, string(ctx.QueryArgs().Peek("token")), g.o.Now())
	if !ok {
		return problem.ForTill("INVALID_LINK", "El enlace no es válido o ya venció: solicite otro")
	}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	b, err := g.o.Outbox.Printed(deadline, code, record.Caller{TokenID: outbox.LinkHolders,
		Point: record.Point{BranchID: branch}}, layout, false)
	if err != nil {
		return err
	}
	file(ctx, "application/pdf", "inline", code.String()+".pdf", b)
	ctx.Response.Header.Set("Referrer-Policy", "no-referrer") // anybody who knows the URL can open the file
	return nil
}
