package deploy_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dted/config"
)

// filled returns the sample configuration with a value in every empty place.
func filled(t *testing.T, uncomment bool) string {
	t.Helper()
	sample := text(t, "dted.toml")
	if uncomment {
		sample = regexp.MustCompile(`(?m)^# (\[|[a-z0-9_"]+ = )`).ReplaceAllString(sample, "$1")
	}
	// A rehearsal of production needs a simulated authority on this machine, which contradicts the other settings.
	sample = regexp.MustCompile(`(?m)^rehearsal = `).ReplaceAllString(sample, "# rehearsal = ")
	sample = strings.Replace(sample, `ambiente = ""`, `ambiente = "00"`, 1)
	sample = strings.Replace(sample, `logo_url = ""`, `# logo_url = ""`, 1) // it needs print.logo
	return strings.ReplaceAll(sample, `= ""`, `= "x"`)
}

// TestSampleConfiguration: the sample shows what must be filled in, and has no other fault, with and without the
// settings that are commented out.
func TestSampleConfiguration(t *testing.T) {
	_, err := config.Load("dted.toml")
	if err == nil || !strings.Contains(err.Error(), "issuer.nit: is missing") {
		t.Errorf("the empty sample must say what is missing: %v", err)
	}
	for _, uncomment := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "dted.toml")
		if err := os.WriteFile(path, []byte(filled(t, uncomment)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path)
		if err != nil {
			t.Fatalf("uncommented %v: %v", uncomment, err)
		}
		if uncomment && (len(c.Payments) != 2 || c.Payments["03"] != "04" || c.Payments["04"] != "05") {
			t.Errorf("the sample's payment_codes are %v", c.Payments)
		}
	}
}

// TestPackageContents: every file of the package exists, and the unit, the sample and the sample's secrets agree on
// their places.
func TestPackageContents(t *testing.T) {
	nfpm, unit := text(t, "nfpm.yaml"), text(t, "dted.service")
	sources := regexp.MustCompile(`(?:src|install|remove): "?(deploy/[^,"}\s]+)`).FindAllStringSubmatch(nfpm, -1)
	if len(sources) < 10 {
		t.Fatalf("only %d files found in nfpm.yaml: the test has lost them", len(sources))
	}
	for _, m := range sources {
		if !exists(filepath.Join("..", m[1])) {
			t.Errorf("nfpm.yaml takes %s, which is not there", m[1])
		}
	}
	for _, m := range regexp.MustCompile(
		`(?m)^(?:# )?[a-z_]+ = "/run/credentials/dted.service/([a-z.]+)"`).FindAllStringSubmatch(text(t, "dted.toml"),
		-1) {
		if !strings.Contains(unit, "LoadCredentialEncrypted="+m[1]+":/etc/dted/"+m[1]+".cred\n") {
			t.Errorf("dted.toml reads the credential %s, which the unit does not load", m[1])
		}
	}
	// An optional secret must have a default, otherwise its missing file ends every start.
	for _, name := range []string{"mail.password", "archive.secret", "fleet.secret"} {
		if !strings.Contains(unit, "\nSetCredential="+name+`:\n`+"\n") {
			t.Errorf("without %s.cred no start", name)
		}
	}
	// The linker ignores a name that does not exist.
	m := regexp.MustCompile(`-X dtegate/(\S+)\.(\w+)=\$VERSION`).FindStringSubmatch(text(t, "package.sh"))
	if m == nil || !strings.Contains(text(t, "../"+m[1]+"/version.go"), "\nvar "+m[2]+" string\n") {
		t.Errorf("package.sh gives the version to %q, which is not there", m)
	}
	// The sample's rules are the package's, and their key too.
	for _, path := range []string{"/usr/share/dted/rules", "/usr/share/dted/rules-keys/package.pub"} {
		if !strings.Contains(text(t, "dted.toml"), ` = "`+path+`"`) || !strings.Contains(nfpm, "dst: "+path) {
			t.Errorf("the sample or the package has no %s", path)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		s := text(t, "deb/"+script)
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:rm|mv|chown|chmod|find|userdel|deluser)\b.*$`).FindAllString(s,
			-1) {
			if strings.TrimSpace(m) != "rm -rf /var/cache/dted" {
				t.Errorf("%s touches what may be data: %s", script, strings.TrimSpace(m))
			}
		}
	}
}

// TestUnit: systemd knows every directive of the unit, and finds it well protected.
func TestUnit(t *testing.T) {
	analyze := skip.Program(t, "systemd-analyze")
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "dted.service").CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for dted.service: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	if score, _ := strconv.ParseFloat(string(m[1]), 64); score > 1.2 {
		t.Errorf("the exposure rose to %s", m[1])
	}
	// A unit with the program that is here, so that only the directives can be wrong.
	unit := filepath.Join(t.TempDir(), "dted.service")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	there := bytes.ReplaceAll([]byte(text(t, "dted.service")), []byte("/usr/bin/dted "), []byte(self+" "))
	if err := os.WriteFile(unit, there, 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func() {
		t.Helper()
		out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
		about := slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
			return !strings.Contains(line, "dted.service") && !strings.Contains(line, "interpreter.conf")
		})
		if len(about) > 0 {
			t.Errorf("systemd-analyze verify (%v):\n%s", err, strings.Join(about, "\n"))
		}
	}
	verify()
	// And with executable memory denied.
	if err := errors.Join(os.Mkdir(unit+".d", 0o700), os.WriteFile(filepath.Join(unit+".d", "interpreter.conf"),
		[]byte(text(t, "interpreter.conf")), 0o600)); err != nil {
		t.Fatal(err)
	}
	verify()
	out, err = exec.Command(analyze, "security", "--offline=true", "--no-pager", unit).CombinedOutput()
	if err != nil || !regexp.MustCompile(
		`(?m)^. MemoryDenyWriteExecute= +Service cannot create writable executable memory mappings`).Match(out) {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
