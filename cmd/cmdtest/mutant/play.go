package mutant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Folders are the folders from whose code mutants are made.
var Folders = []string{"storage", "engine", "rules", "plugins/sdk", "gateway"}

// noticers are the packages whose tests cover most of a folder's code, in addition to the package's own tests. The
// longest key that begins the folder's name counts. After a colon comes the pattern of "go test -run".
var noticers = map[string][]string{
	"storage":          {"engine:" + engineTests, "engine/contingency", "engine/rulestore", "engine/fleet:TestChain.*"},
	"engine":           {"gateway/tilltest"},
	"engine/archive":   {"engine/outbox", "cmd/dted:TestArchive.*"},
	"engine/audit":     {"gateway", "cmd/dted:TestOperator.*|TestAccess.*"},
	"engine/authority": {"engine:" + engineTests, "engine/contingency"},
	"engine/books":     {"gateway/tilltest:TestBooks.*", "cmd/dtectl:TestBooks.*"},
	"engine/fleet":     {"engine/fleet", "engine/fleet/ship", "cmd/dtectl/fleet", "cmd/dted:TestFleet.*"},
	"engine/mail":      {"engine/outbox"},
	"engine/outbox":    {"engine/outbox", "engine/contingency:TestOwed.*", "gateway", "cmd/dted:TestDelivery.*|TestArchive.*"},
	"engine/pdf":       {"engine/outbox:TestPrint.*", "gateway"},
	"engine/pdf/":      {"engine/pdf", "engine/outbox:TestPrint.*", "gateway"},
	"engine/sign":      {"cmd/dted:TestKey.*", "cmd/dtectl:TestInit.*"},
	"engine/rulestore": {"engine/rulestore", "engine:TestBackTest.*|TestRate.*|TestForged.*",
		"cmd/dted:TestRules.*|TestOperatorRules.*|TestReturned.*"},
	"engine/": {"engine", "gateway", "gateway/tilltest"},
	"rules":   {"rules", "rules/fuel", "rules/bundle", "rules/abi/abitest", "plugins/dte01", "engine/rulestore:TestShelf.*"},
	"plugins/sdk": {"plugins/dte01", "plugins/dte03", "plugins/dte05", "plugins/dte06", "plugins/dte07",
		"plugins/dte14", "plugins/retorno"},
	"gateway": {"gateway", "gateway/tilltest",
		"cmd/dted:TestAPI.*|TestStatus.*|TestTokens.*|TestLan.*|TestContract.*|TestRules.*|TestOperator.*|TestBackup.*"},
}

// engineTests are the tests of engine that exercise the packages below it most.
const engineTests = "TestIssue.*|TestRestored.*|TestTransmit.*|TestMonth|TestLost.*"

// Verdict is the result of playing a made mutant.
type Verdict struct {
	*Made
	By   string // the first test that failed, "timeout", or what the compiler of the tests said; "" when nobody noticed
	Said string // of the failed test
	Took time.Duration
}

// Play runs the tests of a mutant's package, then those of its noticers, until one fails.
func (m *Made) Play(ctx context.Context, root, temp string, limit time.Duration) (*Verdict, error) {
	begin := time.Now()
	changed, err := m.Apply(root)
	if err != nil {
		return nil, err
	}
	overlay, err := writeOverlay(root, temp, changed)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Made: m}
	for _, args := range stages(path.Dir(m.File)) {
		if v.By, v.Said, err = playStage(ctx, root, environment(overlay), limit, args); err != nil || v.By != "" {
			break
		}
	}
	v.Took = time.Since(begin).Round(time.Second)
	return v, err
}

// stages are the arguments of go test, one call after the other.
func stages(folder string) (list [][]string) {
	list = append(list, []string{"./" + folder})
	longest := ""
	for name := range noticers {
		if (folder == name || strings.HasPrefix(folder, strings.TrimSuffix(name, "/")+"/")) &&
			len(name) > len(longest) {
			longest = name
		}
	}
	for _, n := range noticers[longest] {
		pkg, pattern, _ := strings.Cut(n, ":")
		if pkg != folder {
			if pattern == "" {
				pattern = ".*"
			}
			list = append(list, []string{"-short", "-run", "^(" + pattern + ")$", "./" + pkg})
		}
	}
	return list
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// playStage returns the first test that failed, and its output.
func playStage(ctx context.Context, root string, env []string, limit time.Duration, args []string) (by, said string,
	err error) {
	args = slices.Concat([]string{"test", "-vet=off", "-failfast", "-count=1", "-p=1", "-skip", "^TestCertify$",
		"-timeout", limit.String()}, args)
	// A mutant may ask for all memory: the shell limits it, so that the machine keeps its own.
	c := exec.CommandContext(ctx, "/bin/sh", slices.Concat([]string{"-c", `ulimit -v 16000000; exec go "$@"`, "go"},
		args)...)
	c.Dir, c.Env = root, env
	c.WaitDelay = time.Minute
	out, err := c.CombinedOutput()
	said = string(out)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", "", nil
	case ctx.Err() != nil || !errors.As(err, &exit):
		return "", said, fmt.Errorf("running go: %w", err)
	case strings.Contains(said, "panic: test timed out"):
		return "timeout", said, nil
	case strings.Contains(said, "[build failed]"), strings.Contains(said, "[setup failed]"):
		return "", said, fmt.Errorf("the mutant cannot be tested: %.500s", said)
	}
	if f := failed.FindStringSubmatch(said); f != nil {
		return f[1], said, nil
	}
	if strings.Contains(said, "\nFAIL") {
		return "crash", said, nil
	}
	return "", said, fmt.Errorf("go ended: %w: %.500s", err, said)
}

// Judged reads people's verdicts on mutants that no test noticed: a line has "equivalent" or "harmless", ": ", the
// mutant's Key, " # ", and the reason.
func Judged(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verdict, rest, _ := strings.Cut(line, ": ")
		at := strings.LastIndex(rest, " # ")
		if verdict != "equivalent" && verdict != "harmless" || at < 0 {
			return nil, fmt.Errorf("%s: %q is not a verdict", file, line)
		}
		list[rest[:at]] = verdict
	}
	return list, nil
}
