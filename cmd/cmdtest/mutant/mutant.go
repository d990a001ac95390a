// Package mutant breaks the product on purpose, and finds out whether a test notices. A mutant is a file in
// cmd/cmdtest/mutant/testdata: it names the fault and the test that must fail, and has the change as a patch. The go
// command gets the change as an overlay; the files of the tree stay unchanged.
//
//	# The number lies in one batch, the record in the next.
//	test: storage TestCrash
//	fault: does not end as its row says
//
//	--- storage/append.go
//	-	set(b, seriesKey(name), row.encode())
//	+	err := s.db.Set(seriesKey(name), row.encode(), pebble.Sync)
//
// The members:
//
//   - test: the package, and the pattern of "go test -run"; the whole name of a test is meant
//   - fault: a regular expression that the output of the failed test matches (optional). The test must notice this very
//     bug
//   - flags: further flags of go test, -short for example (optional)
//
// "make seeded" plays these mutants, "make seeded PART=3/8" an eighth of them; the soak plays all.
//
// The patch is what git diff prints, or less: "---" and the name of a file, then its lines, each after '-' (removed),
// '+' (added) or a space (unchanged). "@@" begins another place of the file. Line numbers do not count: the removed and
// unchanged lines must be in the file exactly once.
//
// In addition, Make makes mutants of the source by rule. "make mutants" plays some of them (Made.Play) and prints how
// many the suite noticed. For each mutant that no test noticed, people write a test, or a judgement in
// cmd/cmdtest/mutant/testdata/judged.txt.
package mutant

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Mutant is one fault.
type Mutant struct {
	Name    string // of its file, without ".patch"
	Bug     string // what is wrong
	Package string // from the root of the module
	Test    string
	Fault   *regexp.Regexp // nil: any failure
	Flags   []string
	hunks   []hunk
}

// hunk is one place of a file that changes.
type hunk struct {
	file     string
	old, new []byte
}

// Read returns the mutants of a folder by name.
func Read(dir string) (list []*Mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m := &Mutant{Name: strings.TrimSuffix(filepath.Base(file), ".patch")}
		if err := m.parse(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *Mutant) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func (m *Mutant) parse(text string) error {
	header, patch, found := strings.Cut("\n"+text, "\n--- ")
	if !found {
		return fmt.Errorf("no line begins with \"--- \"")
	}
	for line := range strings.Lines(header) {
		line = strings.TrimSpace(line)
		if remark, ok := strings.CutPrefix(line, "#"); ok {
			m.Bug = strings.TrimSpace(m.Bug + remark)
			continue
		}
		if line == "" || strings.HasPrefix(line, "diff --git ") || strings.HasPrefix(line, "index ") {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if err := m.set(name, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	if m.Bug == "" || m.Test == "" {
		return fmt.Errorf("\"# what is wrong\" and \"test:\" are due")
	}
	for _, of := range strings.Split("\n"+patch, "\n--- ") {
		if err := m.parseFile(strings.TrimPrefix(of, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mutant) set(name, value string) (err error) {
	switch name {
	case "test":
		m.Package, m.Test, _ = strings.Cut(value, " ")
	case "fault":
		m.Fault, err = regexp.Compile(value)
	case "flags":
		m.Flags = strings.Fields(value)
	default:
		return fmt.Errorf("%q is not a member of a mutant", name)
	}
	return err
}

// parseFile reads the hunks of one file: its name, then its lines.
func (m *Mutant) parseFile(text string) error {
	name, lines, _ := strings.Cut(text, "\n")
	name = strings.TrimPrefix(strings.TrimSpace(name), "a/")
	h := hunk{file: name}
	before := len(m.hunks)
	end := func() {
		h.old, h.new = bytes.TrimRight(h.old, "\n"), bytes.TrimRight(h.new, "\n")
		if !bytes.Equal(h.old, h.new) {
			m.hunks = append(m.hunks, h)
		}
		h = hunk{file: name}
	}
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n") + "\n"
		switch kind := line[0]; {
		case strings.HasPrefix(line, "@@"):
			end()
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "diff --git "), strings.HasPrefix(line, "index "):
		case kind == '-':
			h.old = append(h.old, line[1:]...)
		case kind == '+':
			h.new = append(h.new, line[1:]...)
		case kind == ' ':
			h.old, h.new = append(h.old, line[1:]...), append(h.new, line[1:]...)
		case kind == '\n':
			h.old, h.new = append(h.old, '\n'), append(h.new, '\n')
		default:
			return fmt.Errorf("%s: a line of the patch begins with neither '-', '+' nor a space: %s", name, line)
		}
	}
	end()
	if len(m.hunks) == before {
		return fmt.Errorf("%s: the patch changes nothing", name)
	}
	return nil
}

// Apply returns the changed files of the tree at root, by path from it.
func (m *Mutant) Apply(root string) (map[string][]byte, error) {
	changed := make(map[string][]byte)
	for _, h := range m.hunks {
		text := changed[h.file]
		if text == nil {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, h.file)); err != nil {
				return nil, err
			}
		}
		if len(bytes.TrimSpace(h.old)) == 0 {
			return nil, fmt.Errorf("%s: no line says where the new ones go", h.file)
		}
		lines := slices.Concat([]byte("\n"), text, []byte("\n"))
		old, new := slices.Concat([]byte("\n"), h.old, []byte("\n")), slices.Concat([]byte("\n"), h.new, []byte("\n"))
		if n := bytes.Count(lines, old); n != 1 {
			return nil, fmt.Errorf("%s: these lines are there %d times, not once: adapt the patch\n%s",
				h.file, n, h.old)
		}
		lines = bytes.Replace(lines, old, new, 1)
		changed[h.file] = lines[1 : len(lines)-1]
	}
	return changed, nil
}
