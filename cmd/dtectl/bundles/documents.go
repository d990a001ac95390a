package bundles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/rulestore"
)

type documentsCommand struct {
	Version string   `arg:"" help:"Version of the rule, or the first 8 digits or more of its digest."`
	Name    string   `placeholder:"dte01" help:"Only of this rule: several may share a version."`
	From    string   `placeholder:"YYYY-MM-DD" help:"First day of issue (fecEmi); default: the store's first."`
	To      string   `placeholder:"YYYY-MM-DD" help:"Last day of issue; default: the store's last."`
	State   []string `enum:"PROCESSED,REJECTED,CONTINGENCIA,INVALIDATED" placeholder:"PROCESSED" help:"Only these: PROCESSED, REJECTED, CONTINGENCIA, INVALIDATED."`
	JSON    bool     `help:"Write one JSON object a line, as dtectl invalidate reads them."`
	After   uint64   `help:"Go on behind the document with this id: where a listing of one branch broke off."`
	adminclient.BranchFlags
}

// documentLine is a document that a rule computed.
type documentLine struct {
	Branch string `json:"branch,omitempty"` // URL, of a list of branches
	rulestore.MadeDocument
}

// Run writes page by page: a store of any size takes no more memory than a page. Several branches are read at once, and
// each line names its own.
func (c *documentsCommand) Run(ctx context.Context, top *adminclient.Options) error {
	if c.Branches != "" && c.After > 0 {
		return errors.New("--after: goes with one branch; those of a list that failed are asked again with --resume")
	}
	list, err := c.Open(top)
	if err != nil {
		return err
	}
	out := &documentLines{json: c.JSON, branches: c.Branches != ""}
	faults := make([]error, len(list))
	one := func(i int) error {
		if c.Branches != "" {
			if faults[i] = adminclient.Awake(ctx, list[i], c.Patience); faults[i] != nil {
				return faults[i]
			}
		}
		faults[i] = c.read(ctx, list[i], out)
		return faults[i]
	}
	if c.Branches == "" {
		err = one(0)
	} else {
		c.All(list, one)
		for i, fault := range faults {
			if fault != nil {
				term.Fprintf(term.Err, "%s  FAILED: %v\n", list[i].URL, fault)
			}
		}
		err = c.Failed(list, faults)
	}
	term.Fprintf(term.Err, "%d documents\n", out.n)
	return err
}

// read lists the documents of one branch.
func (c *documentsCommand) read(ctx context.Context, b *adminclient.Gateway, out *documentLines) error {
	query := url.Values{"rule": {strings.ToLower(c.Version)}, "name": {c.Name}, "from": {c.From}, "to": {c.To}}
	var bar *term.Gauge
	if c.Branches == "" {
		bar = term.NewGauge(term.Err)
	}
	defer bar.Clear()
	for after := c.After; ; {
		query.Set("after", strconv.FormatUint(after, 10))
		var page rulestore.MadePage
		if err := b.Ask(ctx, http.MethodGet, "/admin/rules/documents", query, nil, &page); err != nil {
			if after > 0 && c.Branches == "" {
				return fmt.Errorf("%w\ngo on with --after %d", err, after)
			}
			return err
		}
		bar.Clear()
		if err := out.write(b, page.Documents, c.State); err != nil || page.Next == 0 {
			return err
		}
		after = page.Next
		bar.Show(float64(after)/float64(max(1, page.Of)), fmt.Sprintf("record %d of %d", after, page.Of))
	}
}

// documentLines writes the pages of several branches, each whole.
type documentLines struct {
	mu             sync.Mutex
	json, branches bool
	n              int
}

func (l *documentLines) write(b *adminclient.Gateway, page []rulestore.MadeDocument, states []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	lines := json.NewEncoder(term.Data())
	for _, made := range page {
		d := listedDocument{MadeDocument: made}
		if len(states) > 0 && !slices.Contains(states, d.Estado) {
			continue
		}
		one := documentLine{MadeDocument: d}
		if l.branches {
			one.Branch = b.URL
		}
		l.n++
		if l.json {
			if err := lines.Encode(one); err != nil {
				return err
			}
			continue
		}
		if l.n == 1 {
			term.Fprintf(&text, documentColumns, "DATE", "TYPE", "CODE", "CONTROL NUMBER", "STATE", "TOTAL", "RULE",
				"DIGEST")
		}
		term.Fprintf(&text, documentColumns, d.Date, d.Document, d.Code, d.Control, d.Estado, d.Total, d.Rule.Name+" "+
			d.Rule.Version, d.Rule.Digest)
		if l.branches {
			term.Fprintf(&text, "  %s", one.Branch)
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(term.Out, text.String())
	return err
}

// documentColumns are of one width on all pages: what is written is not waited with.
const documentColumns = "%-10s  %-4s  %-36s  %-31s  %-12s  %12s  %-14s  %.12s"
