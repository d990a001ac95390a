// Package signed reads and writes signed JSON documents inside a JWS (RFC 7515): rule bundles, and the orders of a
// chain to its boxes. It is strict, because all readers must see the same content.
package signed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"dtegate/rules/suggest"
)

// Form is the form of a JSON document. Its members are those of the struct into which it is parsed.
type Form struct {
	Name  string // the name of the file; errors begin with it
	Wrong error  // every fault wraps this error
	// Null is the only path whose value may be null; empty: no value may be null.
	Null string
	// Meant maps wrong member names that people often write to the paths where their values belong.
	Meant map[string]string
}

// Places maps the path of each value of a JSON document ("params[2].value") to the value's byte offset.
type Places map[string]int

// Parse reads a document into a struct. It refuses members that the form does not have (names are case-sensitive),
// members that appear twice, null, text that is not UTF-8, and anything after the document. An error names the file,
// line and column.
func (f Form) Parse(b []byte, into any) (Places, error) {
	at, err := f.positions(b, reflect.TypeOf(into).Elem())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%w: %s:%s: %s: a JSON %s does not fit", f.Wrong, f.Name,
				Position(b, int(wrong.Offset)-1), wrong.Field, wrong.Value)
		}
		return nil, fmt.Errorf("%w: %s: %w", f.Wrong, f.Name, err)
	}
	return at, nil
}

// positions returns the Places of a document of type t, and does the checks of Parse.
func (f Form) positions(b []byte, t reflect.Type) (Places, error) {
	w := walker{form: f, b: b, d: json.NewDecoder(bytes.NewReader(b)), at: make(Places)}
	if !utf8.Valid(b) {
		return nil, w.fault(0, "it is not UTF-8")
	}
	err := w.value("", t)
	if end := w.next(); err == nil {
		if _, after := w.d.Token(); !errors.Is(after, io.EOF) {
			err = w.fault(end, "something follows")
		}
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, w.fault(int(syntax.Offset)-1, syntax.Error())
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, w.fault(len(b), "it ends too early")
	}
	return w.at, err
}

type walker struct {
	form Form
	b    []byte
	d    *json.Decoder
	at   Places
}

// value reads the value at path. The value must have type t. A nil t means that the form has no value there.
func (w *walker) value(path string, t reflect.Type) error {
	start := w.next()
	if _, twice := w.at[path]; twice {
		return w.fault(start, path+": appears twice")
	}
	if t == nil {
		return w.fault(start, path+": there is no such field")
	}
	w.at[path] = start
	token, err := w.d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		err = w.object(path, t)
	case json.Delim('['):
		for i := 0; w.d.More() && err == nil; i++ {
			err = w.value(fmt.Sprintf("%s[%d]", path, i), below(t, ""))
		}
	case nil:
		if path != "" && path == w.form.Null {
			return nil
		}
		return w.fault(start, path+": is null")
	default:
		return nil
	}
	if err != nil {
		return err
	}
	_, err = w.d.Token() // the closing bracket
	return err
}

func (w *walker) object(path string, t reflect.Type) error {
	for w.d.More() {
		token, err := w.d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		// Each path must name one value: a name may contain . or [ only in an object of texts, which have no members.
		free := t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String
		if name == "" || !free && strings.ContainsAny(name, ".[") {
			return w.fault(w.next(), fmt.Sprintf("%s: there is no field %q", path, name))
		}
		below := below(t, name)
		if below == nil {
			return w.fault(w.next(), join(path, name)+": there is no such field"+w.hint(path, name, t))
		}
		if err := w.value(join(path, name), below); err != nil {
			return err
		}
	}
	return nil
}

func below(t reflect.Type, name string) reflect.Type {
	switch kind := t.Kind(); {
	case t == anything:
		return t
	case kind == reflect.Slice && name == "", kind == reflect.Map && name != "":
		return bare(t.Elem())
	case kind == reflect.Struct && name != "-":
		for i := range t.NumField() {
			if f := t.Field(i); name != "" && jsonName(f) == name {
				return bare(f.Type)
			}
		}
	}
	return nil
}

var anything = reflect.TypeFor[json.RawMessage]()

func bare(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// hint suggests the member of an object, or the entry of Form.Meant, that is nearest to an unknown name.
func (w *walker) hint(path, name string, t reflect.Type) string {
	names := slices.Sorted(maps.Keys(w.form.Meant))
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			names = append(names, jsonName(t.Field(i)))
		}
	}
	i, letters := suggest.Of(name, names)
	if i < 0 || letters > 2 {
		return ""
	}
	return "; the nearest that there is: " + cmp.Or(w.form.Meant[names[i]], join(path, names[i]))
}

func (w *walker) next() int {
	at := int(w.d.InputOffset())
	for at < len(w.b) && strings.IndexByte(" \t\r\n,:", w.b[at]) >= 0 {
		at++
	}
	return at
}

func (w *walker) fault(at int, text string) error {
	return fmt.Errorf("%w: %s:%s: %s", w.form.Wrong, w.form.Name, Position(w.b, at), text)
}

// Nearest returns the offset of the value at path, or of the object in which the value is missing.
func (p Places) Nearest(path string) int {
	for path != "" {
		if at, ok := p[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return p[""]
}

// Position returns an offset as line:column, both from 1; columns are counted in bytes.
func Position(b []byte, offset int) string {
	before := b[:min(max(offset, 0), len(b))]
	return fmt.Sprintf("%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}
