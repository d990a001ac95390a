package document

import (
	"bytes"
	"embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The schemas are this package's own, written from MH's published field lists (SC8). They are not MH's files, so that
// an error in the product's reading is not repeated here.
//
//go:embed schemas
var files embed.FS

// generation is a document type and its identificacion.version.
type generation struct {
	tipo    string
	version int
}

// schema is the JSON schema and the checks of one generation.
type schema struct {
	form     *jsonschema.Schema
	previous bool
	checks   []func(*Document) *Refusal
}

// Anulacion and Contingencia are the types of events, which have no code of CAT-002.
const (
	Anulacion    = "anulacion"
	Contingencia = "contingencia"
)

// form is one row of forms.
type form struct {
	file     string
	previous bool // the generation is the one before DTE 2.0
	checks   []func(*Document) *Refusal
}

// forms lists the generations that are received. A new generation needs a schema file and a row here.
var forms = map[generation]form{
	{"01", 1}: {"01-v1.json", true, slices.Concat(common, sold, invoice, last)},
	{"01", 2}: {"01-v2.json", false, slices.Concat(common, sold, invoice, last)},
	{"03", 3}: {"03-v3.json", true, slices.Concat(common, sold, voucher, last)},
	{"03", 4}: {"03-v4.json", false, slices.Concat(common, sold, voucher, last)},
	{"04", 3}: {"04-v3.json", true, slices.Concat(common, sold[:1], remission)},
	{"04", 4}: {"04-v4.json", false, slices.Concat(common, sold[:1], remission)},
	{"05", 3}: {"05-v3.json", true, slices.Concat(common, sold, note)},
	{"05", 4}: {"05-v4.json", false, slices.Concat(common, sold, note)},
	{"06", 3}: {"06-v3.json", true, slices.Concat(common, sold, note)},
	{"06", 4}: {"06-v4.json", false, slices.Concat(common, sold, note)},
	{"07", 1}: {"07-v1.json", true, slices.Concat(common, withholding)},
	{"07", 2}: {"07-v2.json", false, slices.Concat(common, withholding)},
	{"08", 1}: {"08-v1.json", true, slices.Concat(common, liquidation)},
	{"08", 2}: {"08-v2.json", false, slices.Concat(common, liquidation)},
	{"09", 1}: {"09-v1.json", true, slices.Concat(common, statement)},
	{"09", 2}: {"09-v2.json", false, slices.Concat(common, statement)},
	{"11", 1}: {"11-v1.json", true, slices.Concat(common, sold, exportation, last)},
	{"11", 3}: {"11-v3.json", false, slices.Concat(common, sold, exportation, last)},
	{"14", 1}: {"14-v1.json", true, slices.Concat(common, sold, purchase, last)},
	{"14", 2}: {"14-v2.json", false, slices.Concat(common, sold, purchase, last)},
	{"15", 1}: {"15-v1.json", true, slices.Concat(common, donation)},
	{"15", 2}: {"15-v2.json", false, slices.Concat(common, donation)},
	{"18", 1}: {"18-v1.json", false, giveback},

	{Anulacion, 2}: {"invalidacion-v2.json", true, invalidation},
	{Anulacion, 3}: {"invalidacion-v3.json", false, invalidation},

	{Contingencia, 3}: {"contingencia-v3.json", true, contingency},
	{Contingencia, 4}: {"contingencia-v4.json", false, contingency},
}

// compiled reads the schemas, once a process. A failure is a defect of this package.
var compiled = sync.OnceValue(func() map[generation]*schema {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	entries, err := files.ReadDir("schemas")
	must(err)
	for _, entry := range entries {
		f, err := files.Open("schemas/" + entry.Name())
		must(err)
		resource, err := jsonschema.UnmarshalJSON(f)
		must(err)
		must(compiler.AddResource("simulator:///"+entry.Name(), resource))
	}
	all := make(map[generation]*schema)
	for g, f := range forms {
		form, err := compiler.Compile("simulator:///" + f.file)
		must(err)
		all[g] = &schema{form: form, previous: f.previous, checks: f.checks}
	}
	return all
})

// unguarded compiles MH's patterns without their leading lookaheads, which Go's regexp lacks. Each lookahead only
// forbids line breaks.
func unguarded(pattern string) (jsonschema.Regexp, error) {
	for strings.HasPrefix(pattern, "^(?!") {
		depth, end := 0, len(pattern)
		for i := 1; i < len(pattern) && end == len(pattern); i++ {
			switch pattern[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					end = i + 1
				}
			}
		}
		pattern = "^" + pattern[end:]
	}
	return regexp.Compile(pattern)
}

// layout compiles the schema that a bundle brings.
func layout(file []byte) (*jsonschema.Schema, error) {
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(unguarded)
	if err := c.AddResource("bundle:///schema.json", resource); err != nil {
		return nil, err
	}
	return c.Compile("bundle:///schema.json")
}

func must(err error) {
	if err != nil {
		panic("simulator: " + err.Error())
	}
}

// check validates with exact decimals (the library computes multipleOf on rationals) and returns MH's observations: one
// for each wrong field, in the order of the paths.
func (s *schema) check(root Object) []string {
	err := s.form.Validate(map[string]any(root))
	if err == nil {
		return nil
	}
	failed, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return []string{err.Error()}
	}
	notes := observe(nil, failed)
	slices.Sort(notes)
	return slices.Compact(notes)
}

func observe(notes []string, e *jsonschema.ValidationError) []string {
	if len(e.Causes) > 0 {
		for _, cause := range e.Causes {
			notes = observe(notes, cause)
		}
		return notes
	}
	path := ""
	for _, step := range e.InstanceLocation {
		path += "/" + step
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			notes = append(notes, required(path+"/"+name))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			notes = append(notes, "Campo #"+path+"/"+name+" no está permitido")
		}
	case *kind.MinLength:
		notes = append(notes, "Campo #"+path+" no cumple el tamaño mínimo  permitido") // MH writes two spaces
	case *kind.MaxLength:
		notes = append(notes, "Campo #"+path+" no cumple el tamaño máximo permitido")
	case *kind.Pattern, *kind.Format:
		notes = append(notes, "Campo #"+path+" no cumple el formato requerido")
	default:
		notes = append(notes, invalid(path))
	}
	return notes
}

func invalid(path string) string  { return "Campo #" + path + " contiene un valor inválido" }
func required(path string) string { return "Campo #" + path + " es requerido" }

// item returns an observation about the n-th item, counted from 1, as MH writes it.
func item(n int, text string) string { return "cuerpoDocumento.item." + strconv.Itoa(n) + ": " + text }
