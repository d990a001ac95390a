package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// places are the byte offsets of a JSON document's values by their path, "params[2].value".
type places map[string]int

// known are the paths that a manifest may have.
var known = regexp.MustCompile(`^(|name|version|kind|document|schema|abi|fuel|validity(\.[^.]*(\.(from|until))?)?|params(\[\d+\](\.(name|value|source))?)?|parts(\..*)?)$`)

// positions walks a manifest. It refuses what is not JSON, names that a manifest does not have and names that stand
// twice.
func positions(b []byte) (places, error) {
	w := walker{b: b, d: json.NewDecoder(bytes.NewReader(b)), at: make(places)}
	err := w.value("")
	if end := w.next(); err == nil {
		if _, after := w.d.Token(); !errors.Is(after, io.EOF) {
			err = w.fault(end, "something follows the manifest")
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, w.fault(int(syntax.Offset)-1, syntax.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, w.fault(len(b), "the manifest ends too early")
	}
	return w.at, err
}

type walker struct {
	b  []byte
	d  *json.Decoder
	at places
}

// value reads the value at path.
func (w *walker) value(path string) error {
	start := w.next()
	if _, twice := w.at[path]; twice {
		return w.fault(start, path+": stands twice")
	}
	if !known.MatchString(path) {
		return w.fault(start, path+": a manifest has no such field")
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
	return fmt.Errorf("%w: manifest.json:%s: %s", ErrFormat, position(w.b, at), text)
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
