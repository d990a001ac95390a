package config

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pelletier/go-toml/v2"

	"dtegate/engine/books"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/plugins"
)

// Variables maps settings to the environment variables that override them.
var Variables = map[string]string{"api.listen": "DTED_API_ADDR", "ops.listen": "DTED_OPS_ADDR"}

// Load reads and checks a configuration. The environment overrides Variables. Error: an *Invalid with every fault.
func Load(path string) (*Config, error) {
	c := new(Config)
	faults, err := load(path, c)
	if err != nil {
		return nil, err
	}
	c.presets()
	if err := invalid(path, faults, c.check()); err != nil {
		return nil, err
	}
	if c.Fleet != nil {
		c.overlay()
	}
	return c, nil
}

// presets fills in the defaults that depend on other settings.
func (c *Config) presets() {
	if len(c.Types.Issue) == 0 {
		c.Types.Issue = plugins.Issued()
	}
	preset := func(setting *string, beside, name string) {
		*setting = cmp.Or(*setting, filepath.Join(filepath.Dir(beside), name))
	}
	preset(&c.TLS.Folder, c.Data, "tls")
	preset(&c.BoxKey, c.Tokens, "box.key")
	if f := c.Fleet; f != nil {
		preset(&f.Key, c.Tokens, "fleet.key")
		preset(&f.State, c.Tokens, "fleet.state")
		f.Store = cmp.Or(f.Store, c.Archive)
	}
}

// LoadBooks reads and checks only the section [books], for an accountant who makes books from backups.
func LoadBooks(path string) (*books.Settings, error) {
	c := new(Config)
	if err := read(path, c); err != nil {
		return nil, err
	}
	if err := invalid(path, prepare(&c.Books, "books.", "")); err != nil {
		return nil, err
	}
	return &c.Books, nil
}

// LoadCentre reads and checks a fleet.toml; the error is an *Invalid with every fault.
func LoadCentre(path string) (*Centre, error) {
	c := new(Centre)
	faults, err := load(path, c)
	if err != nil {
		return nil, err
	}
	for _, s := range [][2]string{{"store.endpoint", c.Store.Endpoint}, {"store.bucket", c.Store.Bucket},
		{"store.access_key", c.Store.AccessKey + c.Store.Credentials},
		{"store.secret_file", c.Store.SecretFile + c.Store.Credentials}} {
		if s[1] == "" {
			faults = errors.Join(faults, fmt.Errorf("%s: is missing", s[0]))
		}
	}
	if err := invalid(path, faults); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads a file into a struct like Config and applies the struct's tags.
func load(path string, into any) (faults, err error) {
	if err := read(path, into); err != nil {
		return nil, err
	}
	// The store remembers its mark's path, which must therefore be absolute.
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return prepare(into, "", folder), nil
}

// Newer returns the settings in a file that version 1.0.0 does not know, each with the version that introduced it.
func Newer(path string) (names []string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file map[string]any
	if err := toml.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	for _, s := range settings(reflect.ValueOf(new(Config)).Elem(), "", true) {
		var at any = file
		for name := range strings.SplitSeq(s.name, ".") {
			section, _ := at.(map[string]any)
			at = section[name]
		}
		if since := s.tag.Get("since"); since != "" && at != nil {
			names = append(names, s.name+" (since "+since+")")
		}
	}
	return names, nil
}

// read decodes a TOML file strictly: an unknown name is an error with its line.
func read(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	err = toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(into)
	var strict *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		var faults []error
		for _, e := range strict.Errors {
			line, _ := e.Position()
			faults = append(faults, fmt.Errorf("%s: is not a setting (line %d): it is misspelt, or of another "+
				"version of dted, which CHANGELOG names", strings.Join(e.Key(), "."), line))
		}
		return invalid(path, faults...)
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		err = fmt.Errorf("line %d: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
		if key := strings.Join(wrong.Key(), "."); key != "" {
			err = fmt.Errorf("%s: %w", key, err)
		}
	}
	return invalid(path, err)
}

// setting is a setting or a section of a struct like Config.
type setting struct {
	name  string // "fleet.store.endpoint", "books.sale[0].item"
	tag   reflect.StructTag
	value reflect.Value
}

// settings returns a struct's settings in order. If all is set, it adds the settings of omitted sections and, for each
// list, the settings of one item, without a number.
func settings(v reflect.Value, prefix string, all bool) (list []setting) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			list = append(list, settings(v.Field(i), prefix, all)...)
			continue
		}
		s := setting{prefix + f.Tag.Get("toml"), f.Tag, v.Field(i)}
		list = append(list, s)
		switch t := s.value.Type(); {
		case isSection(t):
			list = append(list, settings(s.value, s.name+".", all)...)
		case t.Kind() == reflect.Pointer && isSection(t.Elem()) && !s.value.IsNil():
			list = append(list, settings(s.value.Elem(), s.name+".", all)...)
		case (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) && isSection(t.Elem()) && all:
			list = append(list, settings(reflect.New(t.Elem()).Elem(), s.name+".", all)...)
		case t.Kind() == reflect.Slice && isSection(t.Elem()):
			for i := range s.value.Len() {
				list = append(list, settings(s.value.Index(i), fmt.Sprintf("%s[%d].", s.name, i), all)...)
			}
		}
	}
	return list
}

func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// prepare applies the tags of a struct like Config: defaults, paths relative to a folder, and every check.
func prepare(section any, prefix, folder string) error {
	var faults []error
	for _, s := range settings(reflect.ValueOf(section).Elem(), prefix, false) {
		preset := s.tag.Get("default")
		if v := os.Getenv(Variables[s.name]); v != "" {
			s.value.SetString(v)
		}
		if s.value.IsZero() && preset != "" {
			if err := set(s.value, preset); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", s.name, err))
			}
		}
		if _, file := s.tag.Lookup("file"); file && s.value.String() != "" && !filepath.IsAbs(s.value.String()) {
			s.value.SetString(filepath.Join(folder, s.value.String()))
		}
		if err := s.check(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(faults...)
}

// set gives a setting the default in its tag (text).
func set(v reflect.Value, text string) error {
	switch into := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return into.UnmarshalText([]byte(text))
	case *string:
		*into = text
		return nil
	}
	n, err := strconv.Atoi(text)
	v.SetInt(int64(n))
	return err
}

func (s *setting) check() error {
	v := s.value
	if v.IsZero() {
		if _, required := s.tag.Lookup("required"); required {
			return errors.New("is missing")
		}
		return nil
	}
	if v.CanInt() && v.Int() < 0 {
		return fmt.Errorf("is %v, must not be below 0", v)
	}
	if one := strings.Fields(s.tag.Get("one")); len(one) > 0 && !slices.Contains(one, fmt.Sprint(v)) {
		return fmt.Errorf("is %#v, must be one of %s", v, strings.Join(one, ", "))
	}
	var least, most Duration
	if within := strings.Fields(s.tag.Get("within")); len(within) > 0 {
		err := errors.Join(least.UnmarshalText([]byte(within[0])), most.UnmarshalText([]byte(within[1])))
		if err != nil {
			return err
		}
		if d := Duration(v.Int()); d < least || d > most {
			return fmt.Errorf("is %v, must be from %v to %v", d, least, most)
		}
	}
	if looks := forms[s.tag.Get("form")]; looks != nil {
		texts, list := v.Interface().([]string)
		if !list {
			texts = []string{v.String()}
		}
		for _, text := range texts {
			if err := looks(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// forms maps the values of the tag "form" to checks of a text.
var forms = map[string]func(string) error{
	"ambiente":      pattern(`0[01]`, `"00" (test) or "01" (production)`),
	"colour":        pattern(`#[0-9a-fA-F]{6}`, `like "#1f5f8b"`),
	"date":          checkDate,
	"establishment": pattern(`[MSBP][0-9]{3}`, "M, S, B or P and three digits"),
	"line":          pattern(`\P{Cc}{0,200}`, "one line of at most 200 characters"),
	"listen":        checkListen,
	"name":          fleetproto.CheckName,
	"origin":        checkOrigin,
	"point":         pattern(`P[0-9]{3}`, "P and three digits"),
	"type":          pattern(`[0-9]{2}`, `a type of CAT-002 like "11"`),
	"url":           CheckURL,
}

// pattern returns a check that the whole text matches a regular expression.
func pattern(expression, must string) func(string) error {
	whole := regexp.MustCompile(`^(?:` + expression + `)$`)
	return func(text string) error {
		if whole.MatchString(text) {
			return nil
		}
		return fmt.Errorf("is %q, must be %s", text, must)
	}
}

func checkDate(text string) error {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return fmt.Errorf("is %q, must be a date like 2026-12-25", text)
	}
	return nil
}

// Settings returns the names of all settings and sections in order. Items of lists have no number: "rules.key.id".
var Settings = sync.OnceValue(func() (names []string) {
	for _, s := range settings(reflect.ValueOf(new(Config)).Elem(), "", true) {
		names = append(names, s.name)
	}
	return names
})

// settingName matches the beginning of a fault's text: "issuer.nrc: is missing", "api.certificate, api.key: each needs
// the other", "books.sale[0].item: is 5".
var settingName = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:(?:\[[0-9]+\])?\.[a-z][a-z0-9_]*)*)(?:, [a-z0-9_.]+)*: `)

// Setting returns the (first) setting at fault, "" if the fault names none.
func Setting(err error) string {
	m := settingName.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	name := regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(m[1], "")
	if !slices.Contains(Settings(), name) {
		return ""
	}
	return name
}

// Invalid is the error of a file that cannot be used, with every fault of the file.
type Invalid struct {
	Path   string
	Faults []error
}

// Error returns a line for each fault, with the file's path.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = e.Path + ": " + f.Error()
	}
	return strings.Join(lines, "\n")
}

func (e *Invalid) Unwrap() []error { return e.Faults }

// invalid returns an *Invalid of the faults, or nil if there are none. Each argument may be a joined error.
func invalid(path string, faults ...error) error {
	if list := Faults(errors.Join(faults...)); len(list) > 0 {
		return &Invalid{path, list}
	}
	return nil
}

// Faults returns the errors of a joined error in their order, each for a line of its own; nil for nil.
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
		return []error{err} // one sentence with several causes
	}
	return list
}

// Duration is a time.Duration written as text.
type Duration time.Duration

func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

func (d Duration) String() string { return time.Duration(d).String() }

// Size is a number of bytes, written as text with a binary unit: "512MiB", "2 GiB".
type Size int64

func (s *Size) UnmarshalText(text []byte) error {
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		number, ok := strings.CutSuffix(string(text), unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if shift := 10 * (i + 1); err == nil && n > 0 && n <= math.MaxInt64>>shift {
			*s = Size(n << shift)
			return nil
		}
	}
	return fmt.Errorf("size %q must be a positive whole number and KiB, MiB, GiB or TiB", text)
}
