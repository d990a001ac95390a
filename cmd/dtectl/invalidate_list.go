package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"dtegate/engine/dte"
)

// recallLine is a document that is to be invalidated.
type recallLine struct {
	code, replacement string
	branch            string // URL, "" when the line names none
}

// readRecallList reads a list whole before anything is sent: what it cannot read must not stop it half way. A document that is named
// twice counts once.
func readRecallList(path string) (list []recallLine, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	defer f.Close()
	lines, seen := bufio.NewScanner(f), make(map[string]string)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		var l recallLine
		if err := l.read(text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		before, twice := seen[l.code]
		switch {
		case twice && before != l.replacement:
			return nil, fmt.Errorf("%s:%d: %s is there twice, with two replacements", path, n, l.code)
		case !twice:
			list = append(list, l)
		}
		seen[l.code] = l.replacement
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no document", path)
	}
	return list, nil
}

// read takes a line of rules documents --json, or a code and perhaps its replacement's.
func (l *recallLine) read(text string) error {
	if text[0] == '{' {
		var d struct {
			Code        string `json:"codigoGeneracion"`
			Replacement string `json:"codigoGeneracionReemplazo"`
			Branch      string `json:"branch"`
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return err
		}
		l.code, l.replacement, l.branch = d.Code, d.Replacement, d.Branch
	} else {
		fields := strings.Fields(text)
		if len(fields) > 2 {
			return fmt.Errorf("a line is CODE [REPLACEMENT], or JSON as rules documents --json writes it")
		}
		l.code = fields[0]
		if len(fields) == 2 {
			l.replacement = fields[1]
		}
	}
	for _, code := range []*string{&l.code, &l.replacement} {
		if *code == "" && code == &l.replacement {
			continue
		}
		parsed, err := dte.ParseCode(*code)
		if err != nil {
			return fmt.Errorf("%q is not a codigoGeneracion", *code)
		}
		*code = parsed.String()
	}
	return nil
}

// mixed reports whether a list has documents of several branches.
func mixed(list []recallLine) bool {
	for _, l := range list {
		if l.branch != list[0].branch {
			return true
		}
	}
	return false
}

// recallReport writes what came of each document; a nil one nothing. It is written anew by each run: the branches remember what MH
// said of those of earlier runs.
type recallReport struct {
	mu   sync.Mutex
	file *os.File
}

func newReport(path string) (*recallReport, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return &recallReport{file: f}, nil
}

func (r *recallReport) write(d *recalled) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.NewEncoder(r.file).Encode(d); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Close ends the report.
func (r *recallReport) Close() error {
	if r == nil {
		return nil
	}
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
