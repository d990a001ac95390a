package storage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// damagedError is ErrCorrupt for a person: which file is damaged, what helps, and the storage engine's own words behind.
type damagedError struct {
	what, help string
	err        error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("%v: %s; %s (%s)", ErrCorrupt, e.what, e.help, oneLine(e.err.Error()))
}

func (e *damagedError) Unwrap() []error { return []error{ErrCorrupt, e.err} }

// repairAdvice is what helps a store that opens to read.
const repairAdvice = "dtectl fsck names the documents, dtectl repair takes them from the other media"

var (
	inDataFile = regexp.MustCompile(`\d{6,}\.(?:sst|log)`)
	inTable    = regexp.MustCompile(`file (\d{6,})`)
)

// Explain adds to an error of a damaged store the file concerned and the remedy, in one line. It returns other errors
// unchanged.
func Explain(err error) error {
	var said *damagedError
	if errors.As(err, &said) || !errors.Is(damaged(err), ErrCorrupt) {
		return err
	}
	text := err.Error()
	file := inDataFile.FindString(text)
	if found := inTable.FindStringSubmatch(text); file == "" && found != nil {
		file = found[1] + ".sst"
	}
	if file == "" {
		return &damagedError{"its rows contradict each other", repairAdvice, err}
	}
	return &damagedError{file + " cannot be read", repairAdvice, err}
}

// oneLine joins the lines of an error, each once, without what says nothing.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "<corruption detail carrier>" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
