package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
)

// runbook is what deploy/RUNBOOK.md tells operators to type, by section. A fenced block of sh is one order of several
// lines; a span of code in a sentence is an order if it begins with the name of a program.
type runbook map[string]*section

type section struct{ blocks, lines []string }

// programs of operators: a span that begins with another word is a file, a metric or a setting.
var typed = regexp.MustCompile(
	`^(dtectl|runuser|systemctl|systemd-[a-z]+|journalctl|timedatectl|curl|apt|rm|df|du|findmnt|dmesg|smartctl|iostat|iotop|tcpdump|ping|ssh|promtool)( |$)`)

func readRunbook(t testing.TB) runbook {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	book, here, fence := runbook{}, "", regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")
	for part := range strings.SplitSeq("\n"+string(text), "\n#") {
		title, body, _ := strings.Cut(part, "\n")
		here = strings.TrimLeft(title, "# ")
		s := new(section)
		for _, m := range fence.FindAllStringSubmatch(body, -1) {
			s.blocks = append(s.blocks, m[1])
		}
		body = regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(body, "")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(body, -1) {
			if line := strings.Join(strings.Fields(m[1]), " "); typed.MatchString(line) && !slices.Contains(s.lines,
				line) {
				s.lines = append(s.lines, line)
			}
		}
		book[here] = s
	}
	return book
}

// elsewhere lists orders that TestRunbook_DeadBox does not type: by their beginning, the test that runs the same, or
// why no test does. The test must exist.
var elsewhere = map[string]string{
	"dtectl contingency":     "TestOperator",
	"dtectl tls":             "TestOperator",
	"dtectl token":           "TestOperator",
	"dtectl audit":           "TestOperator",
	"dtectl queue":           "TestOperator",
	"dtectl fleet":           "TestREADME_Chain",
	"dtectl fleet keygen":    "TestHostile",
	"dtectl fleet rekey":     "TestRekey",
	"dtectl fleet hold":      "TestHostile",
	"dtectl fleet resume":    "TestHostile",
	"dtectl fleet enrol":     "TestREADME_Chain",
	"dtectl init":            "TestOperator",
	"dtectl backup":          "TestRecover_Backup",
	"Recover: block 1":       "TestRecover_Runbook",
	"dtectl recover":         "TestRecover_Backup",
	"dtectl clock accept":    "TestDoctor_DiskAndClock",
	"dtectl doctor":          "TestDoctor",
	"Install: block 2":       "TestWayBack",
	"dtectl certify":         "TestREADME",
	"dtectl books --explain": "TestREADME",
	"dtectl books":           "TestBooks_Branches",
	"dtectl delivery":        "TestFsck_Archive",
	"dtectl fsck --archive":  "TestFsck_Archive",
	"dtectl invalidate":      "TestOperator_Invalidate",
	"dtectl rules documents": "TestOperator_Invalidate",
	"dtectl rules reinstate": "TestOperator_Return",
	"dtectl rules":           "TestOperator_Rules",
	"systemctl stop dted; dtectl fsck; systemctl start dted": "TestOperator",

	"Mail and archive: block 1": "deploy/install-test.sh types it: it takes systemd's credentials",

	"journalctl": "the system's, alters nothing", "timedatectl": "the system's clock",
	"systemctl status": "the system's, alters nothing", "systemctl list-timers": "the system's, alters nothing",
	"systemd-creds":       "the system's: deploy/install-test.sh has its own",
	"systemd-cryptenroll": "a LUKS disk and a TPM", "apt": "deploy/install-test.sh installs and upgrades with dpkg",
	"curl": "README's test asks the same addresses",
	"df":   "the system's, alters nothing", "du": "the system's, alters nothing",
	"findmnt": "the system's, alters nothing", "dmesg": "the kernel's log",
	"smartctl": "a disk with SMART", "iostat": "the disk's, alters nothing", "iotop": "the disk's, alters nothing",
	"tcpdump": "the branch's network",
	"ping":    "the branch's network", "ssh": "the branch's network", "promtool": "central IT's Prometheus",
	"systemctl restart dted": "typed with others by TestRunbook_DeadBox",
	"systemctl start dted":   "typed with others by TestRunbook_DeadBox",
	"systemctl stop dted":    "typed with others by TestRunbook_DeadBox",
}

// unproven returns the orders that nobody has run: neither typed, nor elsewhere.
func (book runbook) unproven(t testing.TB, typed map[string]bool) (list []string) {
	t.Helper()
	tests, used := tests(t), make(map[string]bool)
	known := func(order string) bool {
		best := ""
		for begin := range elsewhere {
			if (order == begin || strings.HasPrefix(order, begin+" ")) && len(begin) > len(best) {
				best = begin
			}
		}
		used[best] = true
		return best != ""
	}
	for name, s := range book {
		for i := range s.blocks {
			if key := fmt.Sprintf("%s: block %d", name, i+1); !typed[key] && !known(key) {
				list = append(list, key)
			}
		}
		for _, line := range s.lines {
			if typed[name+": "+line] || line == "dtectl" {
				continue
			}
			if !known(strings.TrimPrefix(line, "runuser -u dted -- ")) {
				list = append(list, name+": "+line)
			}
		}
	}
	for begin, proof := range elsewhere {
		if strings.HasPrefix(proof, "Test") && !tests[proof] {
			t.Errorf("%s is proven by %s, which is not there", begin, proof)
		}
		if !used[begin] {
			t.Errorf("the runbook has no order %q any more", begin)
		}
	}
	slices.Sort(list)
	return list
}

// tests returns the test names of both programs; dtectl's tests are in its folders too.
func tests(t testing.TB) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, folder := range []string{".", "../dtectl", "../dtectl/*"} {
		files, err := filepath.Glob(folder + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
		}
	}
	return names
}
