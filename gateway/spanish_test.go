package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/gateway/page"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

var (
	// english are words that no Spanish text has.
	english = regexp.MustCompile(`(?i)\b(the|of|and|is|are|with|not|this|that|which|what|when|its|from|for|by|until|` +
		`without|document|member|request|answer|MH|till)\b`)
	joined = regexp.MustCompile(`"\s*\+\s*"`) // a text over several lines of a source
	words  = regexp.MustCompile(`[a-z]`)
	// unread is what has no language: names, examples, the style, and the month's files.
	unread = regexp.MustCompile(`(?s)<head>.*?</head>|<code>.*?</code>|<pre>.*?</pre>|<small>.*?</small>|` +
		`<details><summary>[\w.-]+</summary>.*?</details>|<a [^>]*lang="en"[^>]*>English</a>|<[^>]+>`)
)

// TestContract_Spanish: every text of the contract has its Spanish, whether the API, a form or this house says it; the
// table has nothing else; and the reference in Spanish has no word of English.
func TestContract_Spanish(t *testing.T) {
	text, err := OpenAPI(plugins.Types(), "es")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := dte.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	table := contractTexts()["es"]
	said := 0
	var compare func(path string, en, es dte.Value)
	compare = func(path string, en, es dte.Value) {
		if en.Len() != es.Len() || len(en.Members()) != len(es.Members()) {
			t.Fatalf("%s is another contract in Spanish", path)
		}
		for i, m := range en.Members() {
			compare(path+"/"+m.Name, m.Value, es.Members()[i].Value)
			if m.Value.Kind() != dte.KindString || m.Name != "title" && m.Name != "summary" && m.Name != "description" {
				continue
			}
			a, b := m.Value.Text(), es.Members()[i].Value.Text()
			said++
			if _, there := table[a]; a == b && !there && words.MatchString(a) {
				t.Errorf("%s: %q has no Spanish in openapi.es.json", path, a)
			}
			if word := english.FindString(b); word != "" {
				t.Errorf("%s: the Spanish has the word %q: %s", path, word, b)
			}
		}
		for i := range en.Len() {
			compare(fmt.Sprintf("%s/%d", path, i), en.Index(i), es.Index(i))
		}
	}
	compare("", contractOf(t), doc)
	if said < 200 {
		t.Errorf("%d texts were compared", said)
	}
	read := unread.ReplaceAllString(string(page.Reference(text, table)), " ")
	if at := english.FindStringIndex(read); at != nil {
		t.Errorf("the reference in Spanish says …%s…", read[max(0, at[0]-60):min(len(read), at[1]+60)])
	}

	sources := ""
	for _, pattern := range []string{"openapi.json", "form/contract.go", "page/reference.go",
		"../plugins/*/form.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources += joined.ReplaceAllString(string(b), "")
		}
	}
	for text := range table {
		quoted := string(dte.Str(text).Append(nil))
		if !strings.Contains(sources, quoted) {
			t.Errorf("openapi.es.json has %s, which nothing says in English", quoted)
		}
	}
}

// TestContract_OwnSpanish: a form says its texts in both languages itself.
func TestContract_OwnSpanish(t *testing.T) {
	invoice := *plugins.Types()[0]
	f := *invoice.Form
	f.About, f.Es = "A pawn.", "Una prenda."
	f.Members = append([]bundle.Member{{Name: "prenda", About: "What is pawned.", Es: "Lo que se empeña.",
		Catalogue: "CAT-900"}}, f.Members...)
	invoice.Form = &f
	for lang, want := range map[string][]string{
		"en": {`"A pawn. Permission FACTURA_CONSUMIDOR_FINAL."`, `"What is pawned. CAT-900."`, `"Invoice (01)"`},
		"es": {`"Una prenda. Permiso FACTURA_CONSUMIDOR_FINAL."`, `"Lo que se empeña. CAT-900."`, `"Factura (01)"`}} {
		text, err := OpenAPI([]*bundle.Type{&invoice}, lang)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("in %s the contract lacks %s", lang, w)
			}
		}
	}
}

// TestContract_Languages: /docs speaks the language of the query, else the browser's, else Spanish; /openapi.json is in
// English for programs, which name no language.
func TestContract_Languages(t *testing.T) {
	url := served(t, New(Options{Now: time.Now}).Serve)
	tags := make(map[string]bool)
	for _, c := range []struct{ path, accept, want string }{
		{"/docs", "", `<html lang="es"`}, {"/docs", "en-US,en;q=0.9,es;q=0.8", `<html lang="en"`},
		{"/docs?lang=en", "es-SV", `<html lang="en"`}, {"/docs?lang=es", "en", `<html lang="es"`},
		{"/openapi.json", "", "DTE branch gateway"}, {"/openapi.json", "*", "DTE branch gateway"},
		{"/openapi.json", "es-SV,es", "Equipo DTE"}, {"/openapi.json?lang=es", "en", "Equipo DTE"},
	} {
		req, _ := http.NewRequest(http.MethodGet, url+c.path, nil)
		req.Header.Set("Accept-Language", c.accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 300)
		n, _ := resp.Body.Read(b)
		_ = resp.Body.Close()
		if !strings.Contains(string(b[:n]), c.want) || resp.Header.Get("Vary") != "Accept-Language" {
			t.Errorf("%+v: Vary %q, %s", c, resp.Header["Vary"], b[:n])
		}
		tags[resp.Header.Get("ETag")] = true
	}
	if len(tags) != 4 {
		t.Errorf("%d tags of four pages", len(tags))
	}
}
