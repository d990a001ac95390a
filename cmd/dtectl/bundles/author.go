package bundles

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/gateway/form"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

type newCommand struct {
	Name   string `arg:"" help:"New folder in plugins/: a type (prenda), or a copy (NAME/v2-2027, catalogues/2027)."`
	From   string `xor:"of" placeholder:"NAME/v2" help:"Folder in plugins/ to copy."`
	On     string `placeholder:"2027-01-01" help:"First day of the copy, in both ambientes."`
	Source string `default:"." type:"existingdir" help:"The checkout that holds plugins/."`
	Type   string `placeholder:"11" help:"New type of CAT-002: makes the folder from MH's schema of the type."`
	Schema string `xor:"of" type:"existingfile" help:"MH's JSON Schema of the type." placeholder:"FILE"`
}

var (
	ruleName    = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	typeNumber  = regexp.MustCompile(`^[0-9]{2}$`)
	siblingName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
)

// Run makes the folder of a type from MH's schema, or a copy of a generation's folder, and prints the next steps.
func (c *newCommand) Run() error {
	to := filepath.Join(c.Source, "plugins", c.Name)
	if _, err := os.Stat(to); err == nil {
		return fmt.Errorf("%s exists; copy another generation with --from", to)
	}
	if c.From != "" {
		return c.sibling(to)
	}
	switch {
	case !ruleName.MatchString(c.Name):
		return fmt.Errorf("%q: a type's name is small letters and digits; copy a generation with --from", c.Name)
	case !typeNumber.MatchString(c.Type) || c.Schema == "":
		return errors.New("a new type needs both: --type NN, its number in CAT-002, and --schema FILE, MH's JSON " +
			"Schema of it; a generation or version is copied --from another")
	}
	schema, err := os.ReadFile(c.Schema)
	if err != nil {
		return err
	}
	files, err := workshop.NewType(to, c.Type, schema)
	if err != nil {
		return err
	}
	for _, f := range files {
		term.Printf("%s\n", f)
	}
	term.Printf("Replace each TO SAY, and write what the schema does not contain: the arithmetic (rule.go), the "+
		"members that a till sends (form.json), the rates (manifest.json).\n"+
		"  first case    dtectl rules test %s --update writes the resulting document: read it\n  try it        "+
		"dtectl rules test %s\n", c.Name, c.Name)
	return nil
}

// sibling copies a generation of a rule into a folder beside it, or plugins/catalogues into a folder inside it.
func (c *newCommand) sibling(to string) error {
	source := strings.TrimPrefix(filepath.ToSlash(filepath.Clean(c.From)), "plugins/")
	rule, generation, isRule := strings.Cut(source, "/")
	parent, name, nested := strings.Cut(c.Name, "/")
	if !nested || parent != rule || isRule == (rule == "catalogues") || !siblingName.MatchString(name) {
		return fmt.Errorf("%s from %s: the folder of a copy lies beside the folder that it is copied from: rules "+
			"new %s/NAME --from %s/GENERATION", c.Name, c.From, rule, rule)
	}
	from := filepath.Join(c.Source, "plugins", rule, generation)
	if _, err := os.Stat(filepath.Join(from, "manifest.json")); err != nil {
		return fmt.Errorf("%s is not a generation of a rule: %w", from, err)
	}
	if _, err := time.Parse(time.DateOnly, c.On); c.On != "" && err != nil {
		return fmt.Errorf("--on: %q is not a day (yyyy-mm-dd)", c.On)
	}
	if err := copyBundle(to, from); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	manifest := filepath.Join(to, "manifest.json")
	term.Printf("%s is a copy of %s%s.\n", to, from, map[bool]string{true: ", of the same module"}[isRule])
	if c.On == "" {
		term.Printf("  version, days  %s: a higher version, and the first day in validity\n", manifest)
	} else {
		version, err := dateManifest(manifest, c.On)
		if err != nil {
			return fmt.Errorf("%s: %w", manifest, err)
		}
		if err := dateCases(to, c.On); err != nil {
			return fmt.Errorf("dating the cases of %s: %w", to, err)
		}
		term.Printf("  version %s     from %s on, in both ambientes: it takes over from the old one by itself\n",
			version, c.On)
	}
	if !isRule {
		term.Printf("  texts, codes   %s\n", filepath.Join(to, "catalogues.json"))
		return nil
	}
	term.Printf("  rates          %s: value and source\n  new documents  dtectl rules test %s --update writes them "+
		"into the cases\n  try it         dtectl rules test %s\n", manifest, c.Name, c.Name)
	return nil
}

// copyBundle copies one bundle's files, without other bundles below its folder.
func copyBundle(to, from string) error {
	for _, folder := range []string{".", "cases"} {
		files, _ := filepath.Glob(filepath.Join(from, folder, "*.json"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err == nil {
				err = errors.Join(os.MkdirAll(filepath.Join(to, folder), 0o755),
					os.WriteFile(filepath.Join(to, folder, filepath.Base(file)), data, 0o644))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	manifestVersion = regexp.MustCompile(`"version": *"([0-9]+)\.([0-9]+)\.[0-9]+"`)
	manifestFrom    = regexp.MustCompile(`"from": *"[^"]*"`)
	caseIssued      = regexp.MustCompile(`"fecEmi": *"([^"]*)"`)
)

func edit(path string, change func([]byte) ([]byte, error)) error {
	data, err := os.ReadFile(path)
	if err == nil {
		data, err = change(data)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// dateManifest raises the version in a manifest, and sets its first day in both ambientes.
func dateManifest(path, day string) (version string, err error) {
	err = edit(path, func(data []byte) ([]byte, error) {
		at := manifestVersion.FindSubmatch(data)
		if at == nil {
			return nil, errors.New("the manifest has no version of three numbers")
		}
		minor, err := strconv.Atoi(string(at[2]))
		if err != nil {
			return nil, err
		}
		version = fmt.Sprintf("%s.%d.0", at[1], minor+1)
		data = bytes.Replace(data, at[0], fmt.Appendf(nil, `"version": %q`, version), 1)
		return manifestFrom.ReplaceAll(data, fmt.Appendf(nil, `"from": %q`, day)), nil
	})
	return version, err
}

// dateCases raises the day of issue in each golden case to day.
func dateCases(folder, day string) error {
	files, err := filepath.Glob(filepath.Join(folder, "cases", "*.json"))
	for _, file := range files {
		err = errors.Join(err, edit(file, func(data []byte) ([]byte, error) {
			return caseIssued.ReplaceAllFunc(data, func(m []byte) []byte {
				if string(caseIssued.FindSubmatch(m)[1]) >= day {
					return m
				}
				return fmt.Appendf(nil, `"fecEmi": %q`, day)
			}), nil
		}))
	}
	return err
}

type TestCommand struct {
	Name   string `arg:"" help:"Folder in plugins/, with its generation (NAME/v2) or all of them (NAME)."`
	Source string `default:"." type:"existingdir" help:"The checkout that holds plugins/."`
	Module string `type:"existingfile" placeholder:"FILE.wasm" help:"Compiled module; default: compile rule.go."`
	Update bool   `help:"Write today's results into the golden cases, and show what differs."`
	Fuel   bool   `help:"Measure the fuel again, and write ten times as much into the manifest."`
}

// Run takes the bundles through the steps of a branch's admission, with a temporary key. It accepts any version.
func (c *TestCommand) Run(ctx context.Context) error {
	w, err := workshop.Open(ctx, c.Source, c.Module)
	if err != nil {
		return err
	}
	defer w.Close(ctx)
	w.IgnoreFuel = c.Fuel
	names, err := workshop.Generations(c.Source, c.Name)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		term.Printf("%s\n", name)
		if c.Update {
			if err := updateCases(ctx, w, name); err != nil {
				failed = append(failed, fmt.Errorf("%s: its cases are not updated: %w", name, err))
				continue
			}
		}
		if err := c.test(ctx, w, name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

func updateCases(ctx context.Context, w *workshop.Workshop, name string) error {
	list, err := w.Update(ctx, name)
	written := 0
	for _, c := range list {
		if c.Differs != nil {
			written++
			term.Printf("%s is written: %v\n", c.Part, c.Differs)
		}
	}
	if err == nil {
		term.Printf("%d of %d cases are written\n", written, len(list))
	}
	return err
}

func (c *TestCommand) test(ctx context.Context, w *workshop.Workshop, name string) error {
	p, err := w.Prove(ctx, name)
	if err != nil {
		return err
	}
	a := &rulestore.Activation{Rule: record.RuleRef{Name: p.Manifest.Name, Version: p.Manifest.Version}, Steps: p.Steps}
	if last := p.Steps[len(p.Steps)-1]; last.Err != nil {
		a.Refused = last.Name
	}
	err = printActivation(a)
	if p.Rule == nil {
		return err
	}
	err = errors.Join(err, readExamples(p.Manifest.Document, p.Rule.Bundle.Parts), w.Said(p, name))
	if c.Fuel && p.Rule.Module != nil {
		var peak int64
		if peak, err = rulestore.PeakFuel(ctx, p.Rule); err == nil {
			err = declareFuel(filepath.Join(w.Folder(name), "manifest.json"), peak)
		}
	}
	return errors.Join(err, p.Rule.Close(ctx))
}

// readExamples reads the examples of a type's form as the gateway does. The golden cases are facts, and test no form.
func readExamples(document string, parts map[string][]byte) error {
	t, err := bundle.ParseType(document, parts)
	if t == nil || err != nil {
		return err
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(t.Form.Examples)) {
		body, err := dte.Parse(t.Form.Examples[name])
		if err != nil {
			return err
		}
		for _, f := range form.New(t).Fill(body, nil).Faults {
			faults = append(faults, fmt.Errorf("form.json: examples.%s: %w", name, f))
		}
	}
	return errors.Join(faults...)
}

var declaredFuel = regexp.MustCompile(`"fuel": *[0-9]+|"params": *\[`)

// declareFuel writes ten times the measured fuel into a manifest, rounded up to two digits.
func declareFuel(path string, peak int64) error {
	unit := int64(1)
	for 10*peak/unit >= 100 {
		unit *= 10
	}
	text := fmt.Sprintf(`"fuel": %d`, (10*peak+unit-1)/unit*unit)
	return edit(path, func(data []byte) ([]byte, error) {
		at := declaredFuel.FindIndex(data)
		if at == nil {
			return nil, fmt.Errorf("%s has neither fuel nor params", path)
		}
		term.Printf("at most %d units for %d lines: %s in the manifest\n", peak, abi.MaxLines, text)
		if old := string(data[at[0]:at[1]]); !strings.HasPrefix(old, `"fuel"`) {
			text += ",\n  " + old
		}
		return slices.Concat(data[:at[0]], []byte(text), data[at[1]:]), nil
	})
}

type signCommand struct {
	File  string   `arg:"" type:"existingfile" help:"Bundle, signed by somebody else already."`
	Key   string   `required:"" type:"existingfile" help:"Private key, see rules keygen."`
	KeyID string   `help:"What the appliances call the key; default: as the configuration pins it, else central-it."`
	Known []string `required:"" type:"existingfile" help:"Public keys, one of which has signed the bundle."`
	Out   string   `help:"Output file; default: replace the bundle."`
}

// Run adds a signature, which does not change the bundle's digest.
func (c *signCommand) Run(top *adminclient.Options) error {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("reading rule bundle: %w", err)
	}
	signer, err := signerOf(c.Key, c.KeyID, top)
	if err != nil {
		return err
	}
	var known []bundle.Key
	for _, file := range c.Known {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading rules key: %w", err)
		}
		public, err := bundle.ParsePublic(b)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		known = append(known, bundle.Key{ID: path.Base(file), Public: public})
	}
	signed, err := bundle.Cosign(data, known, signer)
	if err != nil {
		return err
	}
	return config.WriteFile(cmp.Or(c.Out, c.File), signed)
}
