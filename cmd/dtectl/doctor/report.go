package doctor

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
)

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// finding is one line of the report.
type finding struct {
	Status string `json:"status"` // ok, warn or fail
	Check  string `json:"check"`
	// Setting of the configuration that it is about, "issuer.nrc", where it is about one.
	Setting string `json:"setting,omitempty"`
	What    string `json:"what"`
	Do      string `json:"do,omitempty"` // never empty unless ok
}

// report collects what the checks find.
type report struct {
	findings []finding
}

func (r *report) ok(check, format string, args ...any) {
	r.findings = append(r.findings, newFinding(statusOK, check, "", fmt.Sprintf(format, args...)))
}

func (r *report) warn(check, do, format string, args ...any) {
	r.findings = append(r.findings, newFinding(statusWarn, check, do, fmt.Sprintf(format, args...)))
}

func (r *report) fail(check, do, format string, args ...any) {
	r.findings = append(r.findings, newFinding(statusFail, check, do, fmt.Sprintf(format, args...)))
}

// refuse tells each fault of what ends a start in a line of its own, in the words that dted has for it.
func (r *report) refuse(check string, err error) {
	for _, fault := range config.Faults(err) {
		r.fail(check, remedies[check], "%v", fault)
	}
}

func newFinding(status, check, do, what string) finding {
	what = strings.ReplaceAll(what, "\n", "; ") // one fault a line
	return finding{Status: status, Check: check, Setting: config.Setting(errors.New(what)), What: what, Do: do}
}

func (r *report) count(status string) (n int) {
	for _, f := range r.findings {
		if f.Status == status {
			n++
		}
	}
	return n
}

func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range r.findings {
		term.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.What)
		if f.Do != "" {
			term.Fprintf(w, "\t\t→ %s\n", f.Do)
		}
	}
	return w.Flush()
}
