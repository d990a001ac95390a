package schema

import (
	"strings"
	"testing"

	"dtegate/engine/dte"
)

const formSchema = `{"type":"object","additionalProperties":false,"properties":{
 "sujetoExcluido":{"type":["object","null"],"additionalProperties":false,"properties":{
   "tipoDocumento":{"type":["string","null"]},"numDocumento":{"type":["string","null"],"pattern":"^([0-9]{8}-[0-9]|[0-9]{14}|[0-9]{9})$"}},
   "required":["tipoDocumento","numDocumento"]},
 "resumen":{"type":"object","additionalProperties":false,"properties":{"reteRenta":{"type":"number"},"nota":{"type":["number","null"]}},
   "required":["reteRenta","nota"]}},"required":["sujetoExcluido","resumen"]}`

const formOverlay = `{"from":[
 {"path":"sujetoExcluido.numDocumento","fact":"receptor.numDocumento","form":"########-#","when":{"fact":"receptor.tipoDocumento","is":"13"},"reason":"r"},
 {"path":"sujetoExcluido.tipoDocumento","fact":"receptor.tipoDocumento","reason":"r"},
 {"path":"resumen.reteRenta","value":0,"reason":"r"},
 {"path":"resumen.nota","fact":"resumen.nota","value":0,"reason":"r"}]}`

// A form applies to a text that fits it, under its condition; a constant applies if there is no fact.
func TestFill_FormsAndConstants(t *testing.T) {
	f, err := Compile([]byte(formSchema), []byte(formOverlay), Outputs{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for facts, want := range map[string]string{
		`{"receptor":{"tipoDocumento":"13","numDocumento":"012345678"}}`:               `{"sujetoExcluido":{"tipoDocumento":"13","numDocumento":"01234567-8"},"resumen":{"reteRenta":0,"nota":0}}`,
		`{"receptor":{"tipoDocumento":"36","numDocumento":"012345678"}}`:               `{"sujetoExcluido":{"tipoDocumento":"36","numDocumento":"012345678"},"resumen":{"reteRenta":0,"nota":0}}`,
		`{"receptor":{"tipoDocumento":"13","numDocumento":"01234567-8"}}`:              `{"sujetoExcluido":{"tipoDocumento":"13","numDocumento":"01234567-8"},"resumen":{"reteRenta":0,"nota":0}}`,
		`{"receptor":{"tipoDocumento":null,"numDocumento":null},"resumen":{"nota":5}}`: `{"sujetoExcluido":null,"resumen":{"reteRenta":0,"nota":5}}`,
		`{"resumen":{"reteRenta":7,"nota":null}}`:                                      `{"sujetoExcluido":null,"resumen":{"reteRenta":0,"nota":null}}`,
		`{"receptor":{"tipoDocumento":"13","numDocumento":"0123456789"}}`:              "receptor.numDocumento: PATTERN",
		`{"receptor":{"tipoDocumento":"13","numDocumento":"0123456ñ"}}`:                "receptor.numDocumento: PATTERN",
		`{"receptor":{"tipoDocumento":"13","numDocumento":12345678}}`:                  "receptor.numDocumento: TYPE",
		`{"receptor":{"tipoDocumento":"13","numDocumento":"abcdefghi"}}`:               "receptor.numDocumento: PATTERN",
		`{"receptor":{"numDocumento":"012345678"}}`:                                    `{"sujetoExcluido":{"tipoDocumento":null,"numDocumento":"012345678"},"resumen":{"reteRenta":0,"nota":0}}`,
		`{"receptor":{"tipoDocumento":["13"],"numDocumento":"012345678"}}`:             "receptor.tipoDocumento: TYPE",
		`{"receptor":{"tipoDocumento":"13","numDocumento":["012345678"]}}`:             "receptor.numDocumento: TYPE",
		`{"receptor":{"tipoDocumento":"13","numDocumento":{"a":"01234567"}}}`:          "receptor.numDocumento: TYPE",
	} {
		for range 2 { // the second time with a pooled run
			got, faults := f.Fill(nil, parse(t, facts), &Computed{}, FillOptions{})
			text := string(got)
			if len(faults) > 0 {
				text = faults[0].Error()
			}
			if !strings.HasPrefix(text, want) {
				t.Errorf("%s: got %s, want %s", facts, text, want)
			}
		}
	}
}

// Two generations may mean different amounts by one name: the overlay chooses among the module's answers.
func TestFill_OverlayBeforeTheModulesName(t *testing.T) {
	out := Outputs{Summary: []string{"reteRenta", "otra"}}
	for overlay, want := range map[string]string{
		`{}`: `{"sujetoExcluido":null,"resumen":{"reteRenta":1,"nota":null}}`,
		`{"from":[{"path":"resumen.reteRenta","amount":"otra","reason":"r"}]}`: `{"sujetoExcluido":null,"resumen":{"reteRenta":2,"nota":null}}`,
	} {
		f, err := Compile([]byte(formSchema), []byte(overlay), out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, faults := f.Fill(nil, parse(t, `{"resumen":{}}`), &Computed{Summary: []int64{dte.Scale,
			2 * dte.Scale}}, FillOptions{}); string(got) != want {
			t.Errorf("%s: got %s, %v", overlay, got, faults)
		}
	}
}
