package bundle

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

// places are the byte offsets of a JSON document's values by their path, "params[2].value".
type places map[string]int

// manifestNames are the paths that a manifest may have.
var manifestNames = regexp.MustCompile(`^(|name|version|kind|document|schema|abi|fuel|validity(\.[^.]*(\.(from|until))?)?|params(\[\d+\](\.(name|value|source))?)?|parts(\..*)?)$`)

// parseStrict reads a JSON document into a struct whose members have exactly the names that names matches. The error
// names the file, line and column.
func parseStrict(name string, b []byte, names *regexp.Regexp, into any) (places, error) {
	at, err := positions(name, b, names)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%w: %s:%s: %s: a JSON %s does not fit", ErrFormat, name, position(b, int(wrong.Offset)-1), wrong.Field, wrong.Value)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return at, nil
}

// positions walks a JSON document. It refuses what is not JSON or not UTF-8, names that the document may not have, null
// and names that stand twice.
func positions(name string, b []byte, names *regexp.Regexp) (places, error) {
	w := walker{name: name, names: names, b: b, d: json.NewDecoder(bytes.NewReader(b)), at: make(places)}
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
	name  string // of the file
	names *regexp.Regexp
	b     []byte
	d     *json.Decoder
	at    places
}

// value reads the value at path.
func (w *walker) value(path string) error {
	start := w.next()
	if _, twice := w.at[path]; twice {
		return w.fault(start, path+": stands twice")
	}
	if !w.names.MatchString(path) {
		return w.fault(start, path+": there is no such field")
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
		if path == "params" { // as a manifest without any is written
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
		// A path must not be another's: the parts alone have names with dots, and nothing below them.
		if text, _ := name.(string); text == "" || path != "parts" && strings.ContainsAny(text, ".[") {
			return w.fault(w.next(), fmt.Sprintf("%s: there is no field %q", path, text))
		}
		if err := w.value(strings.TrimPrefix(fmt.Sprintf("%s.%s", path, name), ".")); err != nil {
			return err
		}
	}
	return nil
}

// next is where the next token begins.
func (w *walker) next() int {
	at := int(w.d.InputOffset())
	for at < len(w.b) && strings.IndexByte(" \t\r\n,:", w.b[at]) >= 0 {
		at++
	}
	return at
}

func (w *walker) fault(at int, text string) error {
	return fmt.Errorf("%w: %s:%s: %s", ErrFormat, w.name, position(w.b, at), text)
}

// nearest is the offset of the value at path, or of what it is missing from.
func (p places) nearest(path string) int {
	for path != "" {
		if at, ok := p[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return p[""]
}

// position is an offset as people count it: line:column, from 1, in bytes.
func position(b []byte, offset int) string {
	before := b[:min(max(offset, 0), len(b))]
	return fmt.Sprintf("%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}
