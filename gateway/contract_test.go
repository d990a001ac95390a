package gateway

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/gateway/apitest"
	"dtegate/gateway/problem"
	"dtegate/rules/bundle"
)

// contractOf parses the document.
func contractOf(t *testing.T) dte.Value {
	t.Helper()
	v, err := dte.Parse(contractText)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func at(t *testing.T, v dte.Value, ref string) dte.Value {
	t.Helper()
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		t.Errorf("%s points outside of the document", ref)
	}
	for _, name := range strings.Split(path, "/") {
		v = v.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	if !v.Exists() {
		t.Errorf("%s points at nothing", ref)
	}
	return v
}

// follow is the value of a member, its own or the one that it refers to.
func follow(t *testing.T, doc, v dte.Value) dte.Value {
	t.Helper()
	if ref := v.Get("$ref").Text(); ref != "" {
		return at(t, doc, ref)
	}
	return v
}

// itemsOf are the items of a list of texts.
func itemsOf(list dte.Value) (items []string) {
	for i := range list.Len() {
		items = append(items, list.Index(i).Text())
	}
	return items
}

// TestContract_Structure: the document is OpenAPI 3.1: references resolve and each component is used, operations have
// an id of their own, a summary, their path's parameters and answers.
func TestContract_Structure(t *testing.T) {
	doc := contractOf(t)
	if v := doc.Get("openapi").Text(); !strings.HasPrefix(v, "3.1.") || doc.Get("info").Get("title").Text() == "" ||
		doc.Get("info").Get("version").Text() == "" {
		t.Errorf("openapi %s, info %s", v, doc.Get("info").Append(nil))
	}
	used := make(map[string]bool)
	for _, m := range regexp.MustCompile(`"\$ref":"([^"]+)"`).FindAllSubmatch(contractText, -1) {
		used[string(m[1])] = true
		at(t, doc, string(m[1]))
	}
	for _, kind := range doc.Get("components").Members() {
		for _, c := range kind.Value.Members() {
			if ref := "#/components/" + kind.Name + "/" + c.Name; kind.Name != "securitySchemes" && !used[ref] {
				t.Errorf("%s is not used", ref)
			}
		}
	}
	ids, tags := make(map[string]bool), make(map[string]bool)
	for i := range doc.Get("tags").Len() {
		tags[doc.Get("tags").Index(i).Get("name").Text()] = true
	}
	template := regexp.MustCompile(`\{(\w+)\}`)
	for _, path := range doc.Get("paths").Members() {
		for _, o := range path.Value.Members() {
			id := o.Value.Get("operationId").Text()
			if !slices.Contains([]string{"get", "post"}, o.Name) || id == "" || ids[id] ||
				o.Value.Get("summary").Text() == "" || !tags[o.Value.Get("tags").Index(0).Text()] {
				t.Errorf("%s %s: operationId %q (again: %v), a summary and a known tag are due", o.Name, path.Name, id,
					ids[id])
			}
			ids[id] = true
			have := make(map[string]bool)
			for i := range o.Value.Get("parameters").Len() {
				p := follow(t, doc, o.Value.Get("parameters").Index(i))
				if in := p.Get("in").Text(); in == "path" {
					have[p.Get("name").Text()] = true
					if !p.Get("required").Bool() {
						t.Errorf("%s: %s of the path is not required", id, p.Get("name").Text())
					}
				} else if !slices.Contains([]string{"query", "header"}, in) {
					t.Errorf("%s: %s is in %q", id, p.Get("name").Text(), in)
				}
			}
			for _, m := range template.FindAllStringSubmatch(path.Name, -1) {
				if !have[m[1]] {
					t.Errorf("%s does not say what %s is", id, m[1])
				}
				delete(have, m[1])
			}
			if len(have) > 0 {
				t.Errorf("%s: %v are not in %s", id, have, path.Name)
			}
			well := false
			for _, r := range o.Value.Get("responses").Members() {
				if follow(t, doc, r.Value).Get("description").Text() == "" {
					t.Errorf("%s %s: a description is due", id, r.Name)
				}
				well = well || r.Name < "3"
			}
			if !well {
				t.Errorf("%s has no answer that is well", id)
			}
		}
	}
}

// TestContract_Routes: the routes served are those documented, and every GET has a HEAD.
func TestContract_Routes(t *testing.T) {
	var served, documented []string
	routes := New(Options{Slug: "SLUG"}).routes().List()
	slices.Sort(routes["GET"])
	slices.Sort(routes["HEAD"])
	if !slices.Equal(routes["GET"], routes["HEAD"]) {
		t.Errorf("GET %v, HEAD %v", routes["GET"], routes["HEAD"])
	}
	for method, paths := range routes {
		if method == "HEAD" {
			continue
		}
		for _, p := range paths {
			if own, below := strings.CutPrefix(p, "/dte/"); below {
				own, _, _ = strings.Cut(own, "/")
				if own != "{tipo}" && !strings.Contains(own, "-") && !slices.Contains(bundle.OwnPaths, own) {
					t.Errorf("a type could take the path %s of the API", p)
				}
			}
			if i := strings.Index(p, "{ruta"); i >= 0 {
				p = p[:i]
			}
			if p == "/dte/{tipo}" {
				for _, kind := range record.Known() {
					served = append(served, method+" /dte/"+kind.Path)
				}
				continue
			}
			served = append(served, method+" "+p)
		}
	}
	for _, path := range contractOf(t).Get("paths").Members() {
		for _, o := range path.Value.Members() {
			p := strings.Replace(path.Name, "/{emisor}/DTES/", "/SLUG/DTES/", 1)
			if before, _, ok := strings.Cut(p, "{ambiente}"); ok {
				p = before
			}
			documented = append(documented, strings.ToUpper(o.Name)+" "+p)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served:\n%s\ndocumented:\n%s", strings.Join(served, "\n"), strings.Join(documented, "\n"))
	}
}

// TestContract_Errors: every code that tills meet is documented.
func TestContract_Errors(t *testing.T) {
	known := itemsOf(contractOf(t).Get("components").Get("schemas").Get("Error").Get("properties").Get("type").Get(
		"enum"))
	for _, c := range problem.Types() {
		if !slices.Contains(known, c.Name) {
			t.Errorf("%s is not documented", c.Name)
		}
	}
}

// TestContract_Examples: the examples in deploy/examples are the contract's.
func TestContract_Examples(t *testing.T) {
	files, err := filepath.Glob("../deploy/examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	paths := contractOf(t).Get("paths")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := dte.Parse(bytes.ReplaceAll(data, []byte("ORIGINAL"), []byte(saidCode)))
		if err != nil {
			t.Fatal(err)
		}
		name := "/dte/" + strings.TrimSuffix(filepath.Base(file), ".json")
		if !paths.Get(name).Exists() {
			name += "/{codigoGeneracion}"
		}
		content := paths.Get(name).Get("post").Get("requestBody").Get("content").Get("application/json")
		if !bytes.Equal(exampleOf(content).Append(nil), want.Append(nil)) {
			t.Errorf("the example of %s is not %s", name, file)
		}
	}
}

// TestContract_ExamplesValid: every example of the contract fits its schema.
func TestContract_ExamplesValid(t *testing.T) {
	seen, faults, err := apitest.Examples(contractText)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
	if seen < 16 {
		t.Errorf("%d examples were looked at", seen)
	}
}

// TestContract_Amounts: every number has a format in which a generated client keeps an amount exactly.
func TestContract_Amounts(t *testing.T) {
	var walk func(path string, v dte.Value)
	walk = func(path string, v dte.Value) {
		kind := v.Get("type")
		if kind.Text() == "number" || slices.Contains(itemsOf(kind), "number") {
			if v.Get("format").Text() != "double" {
				t.Errorf("%s is a number without the format double", path)
			}
		}
		for _, m := range v.Members() {
			walk(path+"/"+m.Name, m.Value)
		}
		for i := range v.Len() {
			walk(path+"[]", v.Index(i))
		}
	}
	walk("", contractOf(t))
}

// exampleOf is the first example of a body.
func exampleOf(content dte.Value) dte.Value {
	if all := content.Get("examples").Members(); len(all) > 0 {
		return all[0].Value.Get("value")
	}
	return content.Get("example")
}
