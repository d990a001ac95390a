package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

// Invalid is a file that cannot be used: everything that is wrong with it, one fault a line.
type Invalid struct {
	Path   string
	Faults []error
}

// Error is a line for each fault, with the file's name before it.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = e.Path + ": " + f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e *Invalid) Unwrap() []error { return e.Faults }

// invalid makes an error of faults, which may be joined, or nil of none.
func invalid(path string, faults ...error) error {
	if list := Faults(errors.Join(faults...)); len(list) > 0 {
		return &Invalid{path, list}
	}
	return nil
}

// Faults takes joined errors apart, in their order, so that each can be told in a line of its own. It returns nil of
// nil.
func Faults(err error) (list []error) {
	if err == nil {
		return nil
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var words []string
	for _, e := range several.Unwrap() {
		list = append(list, Faults(e)...)
		words = append(words, e.Error())
	}
	if _, own := err.(*Invalid); !own && strings.Join(words, "\n") != err.Error() {
		return []error{err} // one sentence of several causes
	}
	return list
}

// settingName is how the text of a fault begins, by the habit of this package and of start: "issuer.nrc: is missing",
// "api.certificate, api.key: the one needs the other".
var settingName = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)(?:, [a-z0-9_.]+)*: `)

// Setting is the name of the setting that a fault is of, the first of several; "" when the fault names none.
func Setting(err error) string {
	if m := settingName.FindStringSubmatch(err.Error()); m != nil && slices.Contains(Settings(), m[1]) {
		return m[1]
	}
	return ""
}

// Settings are the names of all settings and sections, in the order of Config. A list's name is that of its items:
// "point_of_sale.id".
var Settings = sync.OnceValue(func() []string {
	var names []string
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				walk(f.Type, prefix)
				continue
			}
			names = append(names, prefix+f.Tag.Get("toml"))
			walk(f.Type, prefix+f.Tag.Get("toml")+".")
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return names
})

var unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// decoding says what is wrong with the text of a TOML file, each fault by its setting and line.
func decoding(path string, err error) error {
	var strict *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		var faults []error
		for _, e := range strict.Errors {
			line, _ := e.Position()
			faults = append(faults, fmt.Errorf("%s: is no setting (line %d): it is misspelt, or a later version of "+
				"dted brought it",
				strings.Join(e.Key(), "."), line))
		}
		return invalid(path, faults...)
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		text := fmt.Errorf("line %d: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
		if key := strings.Join(wrong.Key(), "."); key != "" {
			text = fmt.Errorf("%s: %w", key, text)
		}
		return invalid(path, text)
	}
	return invalid(path, err)
}
