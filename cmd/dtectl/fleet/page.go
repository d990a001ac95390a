package fleet

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

//go:embed page.css
var style string

//go:embed page.html
var pageText string

// policy allows the page's own style and nothing else: no script, no other host.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

// shownAtMost is the number of rows on a page; a search finds further rows.
const shownAtMost = 200

var pageTemplate = template.Must(template.New("page").Funcs(
	template.FuncMap{"css": func() template.CSS { return template.CSS(style) }, "local": local,
		"visible": term.Visible}).Parse(pageText))

var words = map[string][2]string{
	"title": {"Chain", "Cadena"}, "search": {"Search", "Buscar"}, "find": {"branch, group, point of sale, trouble",
		"sucursal, grupo, punto de venta, problema"},
	"branches": {"branches", "sucursales"}, "selling": {"sell", "venden"}, "closed": {"cannot sell",
		"no pueden vender"}, "contingency": {"in contingency", "en contingencia"},
	"silent": {"silent", "sin noticias"}, "waiting": {"wait to be enrolled", "esperan inscripción"},
	"version": {"version", "versión"}, "until": {"good until", "vigente hasta"},
	"rollout": {"roll-out", "despliegue"}, "took": {"took it", "lo tomaron"},
	"failed": {"failed", "fallaron"}, "unsaid": {"no answer yet", "aún no responden"},
	"refused": {"refused", "rechazados"}, "seen": {"seen", "visto"}, "ago": {"ago",
		"atrás"}, "never": {"never", "nunca"}, "points": {"points of sale", "puntos de venta"},
	"rules": {"rules", "reglas"}, "more": {"more: search for them", "más: búsquelas"},
	"none": {"no branch matches", "ninguna sucursal así"}, "fine": {"no concern", "sin novedad"},
	"read": {"read", "leído"}, "stale": {"The store cannot be read; this is how it was. ",
		"No se puede leer el almacén; así estaba. "}, "unread": {"The chain's store was not read yet.",
		"Aún no se ha leído el almacén de la cadena."},
	"documents": {"documents today", "documentos hoy"}, "sells": {"sells", "vende"},
	"unknown":     {"unknown", "sin datos"},
	"CANNOT SELL": {"cannot sell", "no puede vender"}, "REPLACED": {"replaced", "reemplazada"},
}

type view struct {
	Lang, Other, Query, Only string
	Survey                   *Survey
	Counts                   Counts
	Trouble                  string
	Groups                   []groupView
	Rows                     []rowView
	More                     int
}

type groupView struct {
	*fleetproto.Desired
	What, Rollout, Ring string
	Measured            *Ring
}

type rowView struct {
	*Branch
	Title, Group, Level, State, Seen string
	Words                            []wordView
	Points, Rules                    []string
}

// wordView is the text of a concern, and its level, which is a CSS class.
type wordView struct{ Text, Level string }

// T returns a text in the page's language.
func (v *view) T(key string) string {
	w, ok := words[key]
	if !ok {
		return key
	}
	if v.Lang == "en" {
		return w[0]
	}
	return w[1]
}

// Link returns the address of the page with another filter.
func (v *view) Link(only string) string {
	return "?" + url.Values{"only": {only}, "lang": {v.Lang}}.Encode()
}

func (s *site) page(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := &view{Lang: "es", Other: "en", Query: q.Get("q"), Only: q.Get("only"), Survey: s.latest.Load()}
	if q.Get("lang") == "en" {
		v.Lang, v.Other = "en", "es"
	}
	if t := s.trouble.Load(); t != nil {
		v.Trouble = *t
	}
	if v.Survey != nil {
		v.fill()
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, v); err != nil {
		http.Error(w, "page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

func (v *view) fill() {
	v.Counts = v.Survey.Counts()
	for _, g := range v.Survey.Groups {
		gv := groupView{Desired: g.Desired, What: describe(g.Live)}
		if r := g.Rollout; r != nil {
			m := v.Survey.Measure(r, g.Group)
			gv.Rollout, gv.Measured = r.Name+" "+describe(r.State), &m
			gv.Ring = fmt.Sprintf("%s (%d)", ringIn(v.Lang, r), m.Boxes)
		}
		v.Groups = append(v.Groups, gv)
	}
	var shown []rowView
	for _, b := range v.Survey.Branches {
		if r := v.row(b); v.shows(&r) {
			shown = append(shown, r)
		}
	}
	v.Rows = shown[:min(len(shown), shownAtMost)]
	v.More = len(shown) - len(v.Rows)
}

func (v *view) row(b *Branch) rowView {
	out := rowView{Branch: b, Title: b.Name, Group: term.Visible(b.Group()), Level: levelNames[b.Level()],
		State: b.State(), Seen: v.T("never")}
	if !b.Seen.IsZero() {
		out.Seen = dte.Span(max(0, v.Survey.At.Sub(b.Seen)))
	}
	for _, c := range b.Concerns {
		out.Words = append(out.Words, wordView{term.Visible(c.Say(v.Lang)), levelNames[c.Level]})
	}
	if st := b.Status; st != nil {
		out.Title = term.Visible(cmp.Or(st.Name, b.Name))
		for _, p := range st.Points {
			out.Points = append(out.Points, p.String())
		}
		for _, rule := range st.Rules {
			text := rule.Name + " " + rule.Version
			if !rule.Live {
				text += " (" + rule.From + ")"
			}
			out.Rules = append(out.Rules, term.Visible(text))
		}
	}
	return out
}

// only maps a filter of the page to the concerns that it shows.
var only = map[string][]string{"closed": {"closed", "replaced"}, "silent": {"silent", "lost", "never"},
	"waiting": {"waits", "stranger"}}

func (v *view) shows(r *rowView) bool {
	if codes, filter := only[v.Only]; filter && !r.has(codes...) {
		return false
	}
	if v.Only == "contingency" && (r.Status == nil || r.Status.Contingency == nil) {
		return false
	}
	said := []string{r.Name, r.Title, r.Branch.Group(), r.State, v.T(r.State), strings.Join(r.Points, " "),
		strings.Join(r.Rules, " ")}
	for _, w := range r.Words {
		said = append(said, w.Text)
	}
	text := strings.ToLower(strings.Join(said, " "))
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(v.Query)),
		func(word string) bool { return !strings.Contains(text, word) })
}
