package fleet

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
)

//go:embed page.css
var style string

//go:embed page.html
var pageText string

// policy lets the page's own style in and nothing else: no script, no other host.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

// shownAtMost branches on a page; the rest is found by searching.
const shownAtMost = 200

var pageTemplate = template.Must(template.New("page").Funcs(
	template.FuncMap{"css": func() template.CSS { return template.CSS(style) }, "local": controlplane.Local,
		"visible": term.Visible}).Parse(pageText))

// words of the page that depend on the language.
var words = map[string][2]string{
	"title": {"Chain", "Cadena"}, "search": {"Search", "Buscar"}, "find": {"branch, group, point of sale, trouble",
		"sucursal, grupo, punto de venta, problema"},
	"branches": {"branches", "sucursales"}, "selling": {"sell", "venden"}, "closed": {"cannot sell",
		"no pueden vender"}, "contingency": {"in contingency", "en contingencia"},
	"silent": {"silent", "sin noticias"}, "waiting": {"wait to be enrolled", "esperan inscripción"},
	"version": {"version", "versión"}, "until": {"good until", "vigente hasta"},
	"rollout": {"roll-out", "despliegue"}, "held": {"HELD", "DETENIDO"}, "took": {"took it", "lo tomaron"},
	"failed": {"failed", "fallaron"}, "unsaid": {"have not said yet", "aún no responden"},
	"refused": {"refused", "rechazados"}, "live": {"in force", "en vigor"}, "seen": {"seen", "visto"}, "ago": {"ago",
		"atrás"}, "never": {"never", "nunca"}, "points": {"points of sale", "puntos de venta"},
	"rules": {"rules", "reglas"}, "more": {"more: search for them", "más: búsquelas"},
	"none": {"no branch is like that", "ninguna sucursal así"}, "fine": {"nothing to know", "sin novedad"},
	"read": {"read", "leído"}, "stale": {"The store cannot be read; this is how it was. ",
		"No se puede leer el almacén; así estaba. "}, "unread": {"The chain's store was not read yet.",
		"Aún no se ha leído el almacén de la cadena."},
	"each": {"each of them", "una por una"}, "all": {"all", "todas"}, "documents": {"documents today",
		"documentos hoy"}, "of": {"of", "de"}, "box": {"box", "caja"}, "sells": {"sells", "vende"},
	"unknown":     {"unknown", "sin datos"},
	"CANNOT SELL": {"cannot sell", "no puede vender"}, "REPLACED": {"replaced", "reemplazada"},
}

// view is what the page shows.
type view struct {
	Lang, Other, Query, Only string
	Survey                   *controlplane.Survey
	Counts                   controlplane.Counts
	Trouble                  string
	Groups                   []groupView
	Rows                     []rowView
	More                     int
}

type groupView struct {
	*fleetproto.Desired
	What, Rollout, Ring string
	Measured            *controlplane.Ring
}

type rowView struct {
	*controlplane.Row
	Title, Group, Level, State, Seen string
	Words                            []wordView
	Points, Rules                    []string
	Same                             *sameView // not nil: the line is of several branches, this one the first
}

// wordView is what a concern says, in the colour of its own level.
type wordView struct{ Text, Level string }

// T is a word in the page's language.
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

// Link is the page with another filter.
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
		gv := groupView{Desired: g.Desired, What: controlplane.Describe(g.Live)}
		if r := g.Rollout; r != nil {
			m := v.Survey.Measure(r, g.Group)
			gv.Rollout, gv.Ring, gv.Measured = r.Name+" "+controlplane.Describe(r.State), controlplane.RingIn(v.Lang, r,
				m.Boxes), &m
		}
		v.Groups = append(v.Groups, gv)
	}
	var shown []rowView
	for _, r := range v.Survey.Rows() {
		if rv := v.row(r); v.shows(&rv) {
			shown = append(shown, rv)
		}
	}
	if v.Query == "" && v.Only == "" { // a search answers branch by branch
		shown = v.gather(shown)
	}
	v.Rows = shown[:min(len(shown), shownAtMost)]
	for _, r := range shown[len(v.Rows):] {
		if v.More++; r.Same != nil {
			v.More += r.Same.Count - 1
		}
	}
}

func (v *view) row(r *controlplane.Row) rowView {
	out := rowView{Row: r, Title: r.Name, Group: term.Visible(r.Group()), Level: controlplane.LevelNames[r.Level()],
		State: r.State(), Seen: v.T("never")}
	if !r.Seen.IsZero() {
		out.Seen = controlplane.Span(max(0, v.Survey.At.Sub(r.Seen)))
	}
	for _, c := range r.Concerns {
		out.Words = append(out.Words, wordView{term.Visible(c.Say(v.Lang)), controlplane.LevelNames[c.Level]})
	}
	if st := r.Status; st != nil {
		if st.Name != "" {
			out.Title = term.Visible(st.Name)
		}
		for _, p := range st.Points {
			out.Points = append(out.Points, term.Visible(p.Establishment+p.Point))
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

// shows tells whether a row is one of those that were asked for.
func (v *view) shows(r *rowView) bool {
	has := func(codes ...string) bool {
		for _, c := range r.Concerns {
			for _, code := range codes {
				if c.Code == code {
					return true
				}
			}
		}
		return false
	}
	switch v.Only {
	case "closed":
		if !has("closed", "replaced") {
			return false
		}
	case "contingency":
		if r.Status == nil || r.Status.Contingency == nil {
			return false
		}
	case "silent":
		if !has("silent", "lost", "never") {
			return false
		}
	case "waiting":
		if !has("waits", "stranger") {
			return false
		}
	}
	said := []string{r.Name, r.Title, r.Row.Group(), r.State, v.T(r.State), strings.Join(r.Points, " "),
		strings.Join(r.Rules, " ")}
	for _, w := range r.Words {
		said = append(said, w.Text)
	}
	text := strings.ToLower(strings.Join(said, " "))
	for _, word := range strings.Fields(strings.ToLower(v.Query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
