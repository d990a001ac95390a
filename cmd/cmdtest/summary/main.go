// Summary reads the output of "go test -json". It prints what go test would print, and in the last line how many tests
// were skipped, and why.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"dtegate/cmd/cmdtest/skip"
)

func main() {
	_, err := os.Stat("../shared")
	if err := summarize(os.Stdin, os.Stdout, err == nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// summarize fails if no test compared anything with MH's documents although they are there.
func summarize(in io.Reader, out io.Writer, documents bool) error {
	said := make(map[[2]string]string) // by package and test; a package's own under ""
	skipped, n := make(map[string]int), 0
	for d := json.NewDecoder(in); ; {
		var e struct{ Action, Package, Test, Output string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		at := [2]string{e.Package, e.Test}
		reason := skip.Mark.FindStringSubmatch(e.Output)
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output" && !strings.HasPrefix(e.Output, "=== "):
			said[at] += e.Output
		case e.Action == "skip" && e.Test != "" && !skip.Mark.MatchString(said[at]):
			reason = []string{"", "no reason"}
		case e.Action == "fail" && e.Test == "": // and tests that did not come to their ends
			for _, of := range slices.SortedFunc(maps.Keys(said), func(a, b [2]string) int {
				return strings.Compare(b[1], a[1])
			}) {
				if of[0] == e.Package {
					fmt.Fprint(out, said[of])
				}
			}
		case e.Action == "fail":
			fmt.Fprint(out, said[at])
		case e.Test == "" && (e.Action == "pass" || e.Action == "skip"):
			fmt.Fprint(out, strings.TrimPrefix(said[at], "PASS\n"))
		}
		if reason != nil {
			skipped[reason[1]]++
			n++
		}
		if e.Action == "pass" || e.Action == "skip" || e.Action == "fail" {
			delete(said, at)
		}
	}
	var by []string
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		by = append(by, fmt.Sprintf("%s: %d", reason, skipped[reason]))
	}
	fmt.Fprintf(out, "skipped: %d (%s)\n", n, strings.Join(by, ", "))
	if documents && skipped[skip.MHDocuments] > 0 {
		return errors.New("../shared is there: what compares with MH's documents may not skip")
	}
	return nil
}
