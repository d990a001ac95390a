package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/certify"
	"dtegate/cmd/term"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
)

type invalidateCommand struct {
	FromList string `required:"" type:"existingfile" placeholder:"FILE" help:"Lines: CODE [REPLACEMENT], or JSON."`
	Kind     int    `required:"" enum:"1,2,3" help:"CAT-024: 1 wrong data, 2 rescinded, 3 other; 1, 3 replace."`

	Reason      string         `required:"" help:"Why, for MH and for the branch's record."`
	Responsible certify.Person `required:"" placeholder:"NAME,TYPE,NUMBER" help:"Who is responsible; TYPE 13 is a DUI."`
	Applicant   certify.Person `placeholder:"NAME,TYPE,NUMBER" help:"Who asks for it; default: who is responsible."`
	DryRun      bool           `help:"Only show what would be done with each document."`
	Again       bool           `help:"Send another event for documents whose event MH has refused."`
	Every       time.Duration  `default:"500ms" help:"Least time from one event to the next."`
	Patience    time.Duration  `default:"15m" help:"How long MH may fail to answer."`
	Report      string         `type:"path" placeholder:"FILE" help:"Write each document's outcome, as JSON lines."`
	adminclient.Flags
}

// recallBody is the body of an invalidation, as a till sends it.
type recallBody struct {
	Kind        int            `json:"tipoAnulacion"`
	Reason      string         `json:"motivo"`
	Responsible certify.Person `json:"responsable"`
	Applicant   certify.Person `json:"solicita"`
	Replacement string         `json:"codigoGeneracionReemplazo,omitempty"`
}

func explain(r *engine.Appraisal) string {
	text := ""
	switch r.Verdict {
	case engine.RecallPossible:
		text = "can be invalidated"
		if r.Until != "" {
			text += " until " + r.Until
		}
	case engine.RecallPending:
		text = "the event waits for MH's answer"
	case engine.RecallLate:
		text = "the time to invalidate it ended on " + r.Until
	case engine.RecallHeld:
		text = fmt.Sprintf("%d notes or returns on it are in force: invalidate these first", r.Held)
		if r.Held == 0 {
			text = "later credit notes use the amount of this debit note: invalidate these first"
		}
	case engine.RecallReplacement:
		text = "the list does not name the document that replaces it"
	case engine.RecallNotAccepted:
		text = "MH has not accepted it: it is " + r.Estado
	case engine.RecallUnknown:
		text = "the branch has no such document"
	}
	if e := r.Invalidation; e != nil && (r.Verdict == engine.RecallInvalidated || r.Verdict == engine.RecallRefused) {
		text = "MH:"
		if m := e.Response; m != nil {
			text += " " + strings.Join(append([]string{m.CodigoMsg, m.DescripcionMsg}, m.Observaciones...), " ")
		}
	}
	for _, f := range r.Faults {
		if r.Verdict == engine.RecallNotValid {
			text = strings.TrimPrefix(text+"; "+f.Path+": "+f.Message, "; ")
		}
	}
	return text
}

// Run can be repeated, even after it was killed: it skips invalidated documents, and sends unanswered events again.
func (c *invalidateCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	list, err := readRecallList(c.FromList)
	if err != nil {
		return err
	}
	if c.Applicant == (certify.Person{}) {
		c.Applicant = c.Responsible
	}
	var report *os.File // nil: no report is written
	if c.Report != "" {
		if report, err = os.OpenFile(c.Report, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		defer report.Close() // each Write has returned its own error
	}
	return c.recall(ctx, b, list, report)
}

// recall works through the list from its last document to its first, because a note or a return comes after the
// document that it refers to.
func (c *invalidateCommand) recall(ctx context.Context, b *adminclient.Gateway, list []recallLine,
	report *os.File) error {
	bar := term.NewGauge(term.Err)
	counts := make(map[string]int)
	var sent time.Time
	for i, l := range slices.Backward(list) {
		r, err := c.one(ctx, b, l, &sent)
		if err != nil {
			bar.Clear()
			return fmt.Errorf("%s: %w\n%d of %d documents were checked; repeat the same command to "+
				"continue", l.code, err, len(list)-1-i, len(list))
		}
		counts[r.Verdict]++
		bar.Clear()
		term.Printf("%-17s  %s  %-31s  %s\n", r.Verdict, r.Code, r.Control, explain(r))
		line, err := json.Marshal(r)
		if err == nil && report != nil {
			_, err = report.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		bar.Show(float64(len(list)-i)/float64(len(list)), fmt.Sprintf("%d of %d documents", len(list)-i, len(list)))
	}
	bar.Clear()
	for _, verdict := range slices.Sorted(maps.Keys(counts)) {
		term.Printf("%d %s\n", counts[verdict], verdict)
	}
	if left := len(list) - counts[engine.RecallInvalidated]; left > 0 && !c.DryRun {
		return fmt.Errorf("%d of %d documents are not invalidated", left, len(list))
	}
	return nil
}

// one checks one document of a list, and invalidates the document if possible. sent is the time of the run's last
// event. Repeating a finished list costs little: the check records no act and sends nothing to MH.
func (c *invalidateCommand) one(ctx context.Context, b *adminclient.Gateway, l recallLine, sent *time.Time) (
	*engine.Appraisal, error) {
	body := recallBody{Kind: c.Kind, Reason: c.Reason, Responsible: c.Responsible, Applicant: c.Applicant,
		Replacement: l.replacement}
	query := func() url.Values { return url.Values{"code": {l.code}} }
	r := new(engine.Appraisal)
	if err := b.Ask(ctx, http.MethodPost, "/admin/invalidation/check", query(), body, r); err != nil {
		return nil, err
	}
	if c.DryRun || r.Verdict != engine.RecallPossible && r.Verdict != engine.RecallPending &&
		!(c.Again && r.Verdict == engine.RecallRefused) {
		return r, nil
	}
	act := query()
	if c.Again {
		act.Set("again", "1")
	}
	for began := time.Now(); ; {
		if err := fairqueue.Sleep(ctx, c.Every-time.Since(*sent)); err != nil {
			return nil, err
		}
		*sent = time.Now()
		*r = engine.Appraisal{}
		err := b.Ask(ctx, http.MethodPost, "/admin/invalidation", act, body, r)
		var refused *adminclient.Refusal
		if err == nil || !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable ||
			time.Since(began)+refused.After > c.Patience {
			return r, err
		}
		term.Fprintf(term.Err, "%s: %v: asking again in %v\n", l.code, err, refused.After)
		if err := fairqueue.Sleep(ctx, max(refused.After, time.Second)); err != nil {
			return nil, err
		}
	}
}

type recallLine struct {
	code, replacement string
}

// readRecallList reads the whole list before anything is sent, because an unreadable line must not stop a run half-way.
// A repeated document counts once.
func readRecallList(path string) (list []recallLine, err error) {
	seen := make(map[string]string)
	err = readLines(path, func(text string) error {
		var l recallLine
		if err := l.read(text); err != nil {
			return err
		}
		before, twice := seen[l.code]
		switch {
		case twice && before != l.replacement:
			return fmt.Errorf("%s is listed twice, with two replacements", l.code)
		case !twice:
			list = append(list, l)
		}
		seen[l.code] = l.replacement
		return nil
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s names no document", path)
	}
	return list, err
}

// read accepts a line that dtectl rules documents --json wrote, or a code and, optionally, the code of its replacement.
func (l *recallLine) read(text string) error {
	if text[0] == '{' {
		var d struct {
			Code        string `json:"codigoGeneracion"`
			Replacement string `json:"codigoGeneracionReemplazo"`
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return err
		}
		l.code, l.replacement = d.Code, d.Replacement
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

// readLines calls the function read with each line of a file, except empty lines and comments.
func readLines(path string, read func(line string) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := read(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return nil
}
