// Package signed reads and writes the documents that this house signs: JSON inside a JWS (RFC 7515), each in one form
// only, so that two readers cannot differ about what was signed. Rule bundles and the orders of a chain have this form.
package signed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Form is the form that a JSON document may have.
type Form struct {
	Name    string         // of the file: errors begin with it
	Members *regexp.Regexp // matches the paths that the document may have: "", "params[2].value"
	Wrong   error          // every fault wraps it
	// Free is the path of an object whose members may have any name and contain no members themselves; empty: none.
	Free string
	// Null is a path that may be null; empty: none.
	Null string
	// Hint returns, for a path that the document may not have, a suggestion to append to the fault; nil suggests
	// nothing.
	Hint func(path string) string
}

// Places are the byte offsets of a JSON document's values by their path, "params[2].value".
type Places map[string]int

// Parse reads a document into a struct. It refuses members that the form does not have (the case of letters counts),
// members that appear twice, null, text that is not UTF-8, and anything after the document. An error names the file,
// line and column.
func (f Form) Parse(b []byte, into any) (Places, error) {
	at, err := f.positions(b)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%w: %s:%s: %s: a JSON %s does not fit", f.Wrong, f.Name,
				Position(b, int(wrong.Offset)-1), wrong.Field, wrong.Value)
		}
		return nil, fmt.Errorf("%w: %s: %w", f.Wrong, f.Name, err)
	}
	return at, nil
}

// positions walks a document and refuses what Parse refuses.
func (f Form) positions(b []byte) (Places, error) {
	w := walker{form: f, b: b, d: json.NewDecoder(bytes.NewReader(b)), at: make(Places)}
	if !utf8.Valid(b) {
		return nil, w.fault(0, "it is not UTF-8")
	}
	err := w.value("")
	if end := w.next(); err == nil {
		if _, after := w.d.Token(); !errors.Is(after, io.EOF) {
			err = w.fault(end, "something follows")
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, w.fault(int(syntax.Offset)-1, syntax.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
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

// value reads the value at path.
func (w *walker) value(path string) error {
	start := w.next()
	if _, twice := w.at[path]; twice {
		return w.fault(start, path+": stands twice")
	}
	if !w.form.Members.MatchString(path) {
		hint := ""
		if w.form.Hint != nil {
			hint = w.form.Hint(path)
		}
		return w.fault(start, path+": there is no such field"+hint)
	}
	w.at[path] = start
	token, err := w.d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		err = w.object(path)
	case json.Delim('['):
		for i := 0; w.d.More() && err == nil; i++ {
			err = w.value(fmt.Sprintf("%s[%d]", path, i))
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

func (w *walker) object(path string) error {
	for w.d.More() {
		name, err := w.d.Token()
		if err != nil {
			return err
		}
		// Two members must not have the same path: only free names may contain dots, and nothing is below them.
		if text, _ := name.(string); text == "" || (path == "" || path != w.form.Free) && strings.ContainsAny(text,
			".[") {
			return w.fault(w.next(), fmt.Sprintf("%s: there is no field %q", path, text))
		}
		if err := w.value(strings.TrimPrefix(fmt.Sprintf("%s.%s", path, name), ".")); err != nil {
			return err
		}
	}
	return nil
}

// next returns the offset at which the next token begins.
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

// Nearest returns the offset of the value at path, or of the object from which it is missing.
func (p Places) Nearest(path string) int {
	for path != "" {
		if at, ok := p[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return p[""]
}

// Position writes an offset as people count it: line:column, from 1, in bytes.
func Position(b []byte, offset int) string {
	before := b[:min(max(offset, 0), len(b))]
	return fmt.Sprintf("%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}
