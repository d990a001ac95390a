package mutant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrSurvived means that no test noticed.
var ErrSurvived = errors.New("nobody noticed")

// Run plays a mutant of the tree at root; temp is an empty folder. It returns the output of the failed test, and an
// error if the test did not fail, or failed for another reason.
func (m *Mutant) Run(ctx context.Context, root, temp string) (said string, err error) {
	changed, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	overlay, err := writeOverlay(root, temp, changed)
	if err != nil {
		return "", err
	}
	// Vet and debug information would take two thirds of the time.
	args := slices.Concat([]string{"test", "-vet", "off", "-ldflags", "-s -w", "-timeout", "10m", "-run",
		pattern(m.Test)}, m.Flags, []string{"./" + m.Package})
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Env = root, environment(overlay)
	out, err := c.CombinedOutput()
	said = string(out)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(said, "[no tests to run]"):
		return said, fmt.Errorf("%s has no test %s", m.Package, m.Test)
	case err == nil:
		return said, ErrSurvived
	case !errors.As(err, &exit):
		return said, fmt.Errorf("running go: %w", err)
	case !strings.Contains(said, "\nFAIL\t") || strings.Contains(said, " failed]"): // [build failed], [setup failed]
		return said, errors.New("the mutant cannot be tested")
	case m.Fault != nil && !m.Fault.MatchString(said):
		return said, fmt.Errorf("another fault was found: %q is not in the output", m.Fault)
	}
	return said, nil
}

// pattern returns a pattern that matches only the whole names of the test and, after slashes, of its subtests.
func pattern(test string) string {
	names := strings.Split(test, "/")
	for i := range names {
		names[i] = "^(" + names[i] + ")$"
	}
	return strings.Join(names, "/")
}

// writeOverlay writes what "go test -overlay" reads, and returns its name.
func writeOverlay(root, temp string, changed map[string][]byte) (string, error) {
	replace := make(map[string]string)
	for file, text := range changed {
		other := filepath.Join(temp, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(other, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = other
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(temp, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// environment returns this process's environment without variables that would make the mutant's test longer. The
// overlay also applies to what the test builds: programs and rule modules.
func environment(overlay string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DTE_SOAK=") })
	return append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
}
