package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/browsertest"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

// overviews are the states of a branch in which the page is looked at.
func overviews() map[string]*Overview {
	now := time.Date(2026, 12, 4, 14, 32, 5, 0, dte.Zone)
	skew := 400 * time.Millisecond
	live := func(kind, document, version string) rulestore.ShownBundle {
		return rulestore.ShownBundle{Admitted: rulestore.Admitted{RuleRef: record.RuleRef{Version: version}, Kind: kind,
			Document: document, From: "2026-01-01"}, State: "live"}
	}
	normal := func() *Overview {
		day := documents.Today{Date: "2026-12-04", Documents: map[string]int{"01": 1184, "03": 61, "05": 7, "07": 2,
			"14": 12, "18": 3}}
		for h, n := range []int{0, 0, 0, 0, 0, 0, 12, 64, 118, 143, 151, 172, 208, 196, 104} {
			day.Hours[h].Normal = n
		}
		day.Hours[9].Rejected, day.Hours[12].Rejected = 2, 3
		month := &Month{Name: "2026-12", Totals: []documents.Total{{Tipo: "FACTURA_CONSUMIDOR_FINAL",
			Estado: "PROCESSED", Count: 4210, Amount: "1234567.80"}, {Tipo: "FACTURA_CONSUMIDOR_FINAL",
			Estado: "INVALIDATED", Count: 3, Amount: "40.00"},
			{Tipo: "FACTURA_CONSUMIDOR_FINAL", Estado: "CONTINGENCIA", Count: 12, Amount: "96.10"},
			{Tipo: "NOTA_CREDITO", Estado: "REJECTED", Count: 1, Amount: "9.00"}}}
		coming := live("document", "01", "2.1.0")
		coming.State, coming.From = "coming", "2027-01-01"
		return &Overview{At: now, Started: now.Add(-75 * time.Hour), Version: "1.4.0", Ambiente: "01", Branch: 3,
			Name: "La Ceiba <Santa Ana>", Today: day, Month: month,
			MH: Reach{Asked: true, Up: true, Since: now.Add(-6*time.Hour - 21*time.Minute)}, Owed: &engine.Backlog{Backlog: contingency.Backlog{At: now,
				Waiting: map[string]int{}}},
			Rules: &rulestore.Listing{Engine: "compiler", Rules: []rulestore.ShownBundle{live("document", "01",
				"2.0.3"), coming, live("document", "03", "2.0.3"), live("document", "05", "2.0.1"),
				live("document", "06", "2.0.1"), live("document", "07", "2.0.0"), live("document", "14", "2.0.2"),
				live("document", "18", "1.0.0"),
				live("catalogue", "catalogues", "2026.8.11"), live("event", "contingencia", "3.0.0"),
				live("event", "invalidacion", "2.0.0")}},
			SecondCopy: &storage.SecondCopy{Live: true, Since: now.Add(-75 * time.Hour)}, Mail: true, Archive: true,
			Free: 41 << 30, Reserve: 512 << 20, Skew: &skew,
			Expires: []fleetproto.Certificate{{Name: "api", Ends: now.AddDate(0, 5, 0)}, {Name: "ca", Ends: now.AddDate(1, 2, 0)}}}
	}
	offline := normal()
	offline.Ambiente = "00"
	offline.Authorisation = &documents.Progress{Since: "2026-10-04", Partial: true,
		Kinds: []documents.Sealed{{Kind: "01", Wanted: 90, Sealed: 61, Waiting: 187, Refused: 3},
			{Kind: "03", Wanted: 75, Sealed: 80}, {Kind: "18", Wanted: 5}, {Kind: "invalidacion", Wanted: 5, Sealed: 5},
			{Kind: "contingencia", Wanted: 5, Sealed: 4}}}
	offline.MH = Reach{Asked: true, Since: now.Add(-52 * time.Minute), Why: "timeout"}
	offline.Owed = &engine.Backlog{Backlog: contingency.Backlog{At: now,
		Contingency: &contingency.Period{Began: now.Add(-51 * time.Minute), Cause: 1},
		Oldest:      now.Add(-51 * time.Minute),
		Waiting:     map[string]int{"report": 187, "settle": 1}},
		Delivery: outbox.Undelivered{Mail: 187, MailOldest: now.Add(-51 * time.Minute), Archive: 2,
			ArchiveOldest: now.Add(-3 * time.Minute)}}
	offline.Today.Hours[13] = documents.Hour{Normal: 133, Contingency: 63}
	offline.Today.Hours[14] = documents.Hour{Contingency: 124}
	offline.Trouble = []Trouble{{At: now.Add(-51 * time.Minute), Message: "in contingency",
		Text: "in contingency cause=1 motive= resumed=false", Count: 1},
		{At: now.Add(-52 * time.Minute), Message: "no answer to a lot",
			Text: "no answer to a lot documents=12 error=timeout", Count: 3}}

	late := normal()
	late.Owed = &engine.Backlog{Backlog: contingency.Backlog{At: now, Waiting: map[string]int{"report": 12,
		"forward": 2043, "lot": 4, "correct": 2}, Oldest: now.Add(-97 * time.Hour),
		EventDeadline: now.Add(-70 * time.Minute), DocumentDeadline: now.Add(4*time.Hour + 9*time.Minute),
		RefusedDeadline: now.Add(19 * time.Hour),
		Refused:         "[contingencia.fInicio] la fecha de inicio es mayor que la fecha de transmisión"},
		Delivery: outbox.Undelivered{MailTrouble: "535 5.7.8 authentication failed for dte@tienda.example", Mail: 2043,
			GivenUp: 3}}
	late.SecondCopy = &storage.SecondCopy{Since: now.Add(-2 * time.Hour),
		Why: "write /media/copia/second.log: no space left on device"}
	late.Free, late.Expires[0].Ends = 700<<20, now.AddDate(0, 0, 11)
	late.Rules.Rules[0].Expires, late.Rules.Rules[0].Expired = "2026-11-30", true
	late.Rules.Return = &rulestore.StepBack{At: now.Add(-26 * time.Hour), To: record.RuleRef{Name: "dte01",
		Version: "2.0.2"}, Reason: "dte01 2.0.3: failed 3 times in a minute at 2 points of sale"}
	late.Trouble = []Trouble{{At: now.Add(-8 * time.Minute), Error: true, Message: "sending what is owed",
		Text: "sending what is owed error=\"storing the event's answer: https://apitest.dtes.mh.gob.sv/fesv/contingencia: HTTP 500\"", Count: 41},
		{At: now.Add(-2 * time.Hour), Error: true, Message: "second copy is not written",
			Text:  "second copy is not written path=/media/copia error=\"no space left on device\" to=ana@example.com",
			Count: 1}}

	stopped := normal()
	stopped.Stopped = &refusal.Error{Code: refusal.CodeStorageFull,
		Message: "El disco del equipo está lleno: no se emiten documentos nuevos hasta que haya espacio; los ya emitidos se siguen enviando",
		English: "The store's disk has 120 MiB free and keeps 512 for what is issued already: nothing new is issued",
		Err:     errors.New("secret")}
	stopped.Free = 120 << 20
	done := documents.Progress{Since: "2026-10-04", Kinds: []documents.Sealed{{Kind: "01", Wanted: 90,
		Sealed: 91}}}
	quiet := &Overview{Authorisation: &done, At: now, Started: now.Add(-9 * time.Second), Version: "(devel)",
		Ambiente: "00", Branch: 1, Owed: &engine.Backlog{Backlog: contingency.Backlog{At: now,
			Waiting: map[string]int{}}}, Today: documents.Today{Partial: true}}
	password := normal()
	password.Owed = &engine.Backlog{Backlog: contingency.Backlog{At: now, Waiting: map[string]int{"report": 4},
		Contingency: &contingency.Period{Began: now.Add(-9 * time.Minute), Cause: 2}}}
	password.MH.Refused = fmt.Errorf("%w: HTTP 200: 103 Unauthorized", authority.ErrPasswordExpired)
	return map[string]*Overview{"password": password, "normal": normal(), "contingency": offline, "late": late,
		"stopped": stopped, "quiet": quiet}
}

// unread matches what a page does not show at once, or shows in the other language on purpose: MH's own words are
// Spanish. The other two are words that exist in only one of the languages.
var (
	unread = regexp.MustCompile(
		`(?s)<head>.*?</head>|<details>.*?</details>|<pre>.*?</pre>|<a [^>]*>(English|Español)</a>|\[contingencia.fInicio\][^<]*|<header>.*?</header>`)
	tag         = regexp.MustCompile(`<[^>]+>`)
	onlyEnglish = regexp.MustCompile(
		`(?i)\b(the|is|not|of|and|error|failed|left|device|timeout|nothing|issued|owed)\b|\w+=\S`)
	onlySpanish = regexp.MustCompile(`\b(el|la|los|las|del|que|está|equipo|disco|avise|Hacienda)\b`)
)

// TestPage: what each state must say, in both languages, with every text in its place and nothing of a customer.
func TestPage(t *testing.T) {
	for name, want := range map[string]map[string][]string{
		"normal": {"es": {"<b>La Ceiba &lt;Santa Ana&gt;</b>", "Emite con normalidad", "1,269", "Producción",
			"Factura (01)", "1 ene 2027", "4 may 2027"}, "en": {"Issuing normally", "Production", "Invoice (01)",
			"1 Jan 2027"}},
		"contingency": {"es": {"Emite en contingencia", "Hacienda no está disponible.", "13:41 (hace 51 min)", ">187<",
			"Pruebas", "La sucursal entró en contingencia", "no contesta a tiempo",
			"Autorización de Hacienda", "61 de 90", "187 en espera · 3 rechazados", "80 de 75", "0 de 5",
			"Pruebas que faltan: 35. Cuentan las pruebas desde el 4 oct 2026."}, "en": {"Issuing in contingency",
			"61 out of 90", "Tests still missing: 35. Tests count since 4 Oct 2026.", "MH is not available.",
			"13:41 (51 min ago)"}},
		"late": {"es": {"plazo vencido", "venció hace 1 h 10 min", "faltan 4 h 9 min", "…@tienda.example", "41 veces",
			"[contingencia.fInicio]"}, "en": {"a deadline has passed", "late by 1 h 10 min", "in 4 h 9 min"}},
		"password": {"es": {"Hacienda rechaza la contraseña", "La contraseña de la API venció.",
			"Rechaza la contraseña", "--name=authority.password - /etc/dted/authority.password.cred\nsystemctl " +
				"restart dted"},
			"en": {"MH refuses the password", "has expired"}},
		"stopped": {"es": {"No emite documentos", "El disco del equipo está lleno"}, "en": {"Not issuing documents",
			"has 120 MiB free"}},
		"quiet": {"es": {"<b>Sucursal 1</b>", "Emite con normalidad", "Sin consultar", "Contando todavía", "91 de 90",
			"Hacienda recibió el mínimo de pruebas."}, "en": {"MH has the minimum of tests.", "Not asked yet",
			"Still counting"}},
	} {
		for lang, texts := range want {
			page := string(renderStatus(lang, overviews()[name]))
			for _, text := range texts {
				if !strings.Contains(page, text) {
					t.Errorf("%s in %s lacks %q", name, lang, text)
				}
			}
			read := tag.ReplaceAllString(unread.ReplaceAllString(page, " "), " ")
			if english := onlyEnglish.FindString(read); lang == "es" && english != "" {
				t.Errorf("%s in Spanish says %q outside of a detail", name, english)
			}
			if spanish := onlySpanish.FindString(read); lang == "en" && spanish != "" {
				t.Errorf("%s in English says %q", name, spanish)
			}
			// a word whose key was mistaken for its language
			for _, no := range []string{"dte@tienda", "ana@", "secret", "ZgotmplZ", "<script", " style=", "http://",
				"%!", ">es<", ">en<"} {
				if strings.Contains(page, no) {
					t.Errorf("%s in %s has %q", name, lang, no)
				}
			}
		}
	}
	if b := renderStatus("es", func() *Overview {
		o := overviews()["late"]
		o.Trouble[0].Text, o.Owed.Refused = "<script>alert(1)</script>", "<i>"
		return o
	}()); strings.Contains(string(b), "<script") || strings.Contains(string(b), "<i>") {
		t.Error("what others say is not escaped")
	}
	for key, w := range words {
		if w[0] == "" || w[1] == "" {
			t.Errorf("%s lacks a language", key)
		}
	}
}

// TestStatus_Get: a page is made once in StatusLife and language, and again after the clock was set back.
func TestStatus_Get(t *testing.T) {
	var p Status
	now, made := overviews()["normal"].At, 0
	look := func() *Overview { made++; return overviews()["normal"] }
	for _, c := range []struct {
		lang  string
		after time.Duration
		want  int
	}{{"es", 0, 1}, {"es", StatusLife - 1, 1}, {"en", StatusLife - 1, 2}, {"es", StatusLife, 3}, {"es", StatusLife - 1, 4},
		{"es", -time.Hour, 5}, {"en", StatusLife, 5}} {
		html := string(p.Get(c.lang, now.Add(c.after), look))
		if made != c.want || !strings.Contains(html, `<html lang="`+c.lang+`">`) {
			t.Errorf("%s after %v: made %d times, want %d: %.60s", c.lang, c.after, made, c.want, html)
		}
	}
}

// TestUnanswered: why MH did not answer, by the kinds of cmd/dted/health's reason.
func TestUnanswered(t *testing.T) {
	for why, want := range map[string]string{"timeout": "mh.why.timeout", "DNS: no such host": "mh.why.name",
		"HTTP 503":           "mh.why.fault",
		"connection refused": "mh.why.link", "": "mh.why.link", "DNS": "mh.why.link",
		"network is unreachable": "mh.why.link"} {
		for _, lang := range []string{"es", "en"} {
			if got := unanswered(lang, why); got != say(lang, want) || got == "" {
				t.Errorf("%q in %s: %q, want %s", why, lang, got, want)
			}
		}
	}
}

func TestCeiling(t *testing.T) {
	for n, want := range map[int]int{0: 2, 2: 2, 3: 4, 5: 6, 11: 12, 17: 20, 40: 40, 41: 50, 211: 240, 999: 1000,
		1001: 1200} {
		if got := ceiling(n); got != want {
			t.Errorf("ceiling(%d) is %d, want %d", n, got, want)
		}
	}
}

// TestBrowser looks at the pages as people do: on a phone and on a desk, light and dark, in each state and language. A
// folder in DTE_SCREENSHOTS gets the pictures, of every combination.
func TestBrowser(t *testing.T) {
	b := browsertest.New(t)
	shown := overviews()["normal"]
	serve := func(policy string, page func(lang string) []byte) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			_, _ = w.Write(page(r.FormValue("lang")))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	status := serve(StatusPolicy, func(lang string) []byte { return renderStatus(lang, shown) })
	contract := contractText(t)
	reference := serve(ReferencePolicy, func(string) []byte { return Reference(contract, nil) })
	look := func(name, url string, wide int, scheme string) {
		b.Open(url, wide, scheme)
		var bad []string
		var closed int
		b.Evaluate(`[...document.querySelectorAll("details:not([open])")].map(d => d.open = true).length`, &closed)
		b.Evaluate(browsertest.Unfit, &bad)
		for _, what := range bad {
			t.Errorf("%s, %d points: %s", name, wide, what)
		}
		var light float64
		b.Evaluate(`getComputedStyle(document.body).backgroundColor.match(/\d+/g).reduce((a, x) => a + +x, 0) / 3`,
			&light)
		if (light > 128) != (scheme == "light") {
			t.Errorf("%s: the paper is %.0f of 255", name, light)
		}
		b.Keep(name, wide)
	}
	all := os.Getenv("DTE_SCREENSHOTS") != ""
	for state, o := range overviews() {
		shown = o
		for _, lang := range []string{"es", "en"} {
			for _, wide := range []int{360, 1280} {
				for _, scheme := range []string{"light", "dark"} {
					// A phone in dark mode speaks Spanish, a desk in light mode too; the other two speak English.
					if all || (wide == 360) == (scheme == "dark") == (lang == "es") {
						look(fmt.Sprintf("status-%s-%s-%s", state, lang, scheme), status+"/?lang="+lang, wide, scheme)
					}
				}
			}
		}
	}
	look("docs-light", reference, 1280, "light")
	look("docs-dark", reference, 360, "dark")
	for _, entry := range b.Blocked() {
		if !strings.Contains(entry, "favicon") {
			t.Errorf("the browser says: %s", entry)
		}
	}
}
