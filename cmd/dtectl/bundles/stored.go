package bundles

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/rulestore"
	"dtegate/gateway/adminapi"
)

type documentsCommand struct {
	Version string `arg:"" help:"Version of the rule, or the first 8 digits or more of its digest."`
	Name    string `placeholder:"NAME" help:"Only of this rule: several may share a version."`
	From    string `placeholder:"YYYY-MM-DD" help:"First day of issue (fecEmi); default: the store's first."`
	To      string `placeholder:"YYYY-MM-DD" help:"Last day of issue; default: the store's last."`
	JSON    bool   `help:"Write one JSON object a line, as dtectl invalidate reads them."`
	adminclient.BranchFlags
}

type documentLine struct {
	Branch string `json:"branch,omitempty"` // URL; only with a list of branches
	rulestore.MadeDocument
}

// Run reads several branches at once, and keeps at most one page of each in memory. Each line then names its branch.
func (c *documentsCommand) Run(ctx context.Context, top *adminclient.Options) error {
	list, err := c.Open(top)
	if err != nil {
		return err
	}
	out := &documentLines{json: c.JSON, branches: c.Branches != ""}
	if c.Branches == "" {
		err = c.read(ctx, list[0], out)
	} else {
		faults := c.All(ctx, list, func(i int) error { return c.read(ctx, list[i], out) })
		for i, fault := range faults {
			if fault != nil {
				term.Fprintf(term.Err, "%s  FAILED: %v\n", list[i].URL, fault)
			}
		}
		err = adminclient.Failed(list, faults)
	}
	term.Fprintf(term.Err, "%d documents\n", out.n)
	return err
}

func (c *documentsCommand) read(ctx context.Context, b *adminclient.Gateway, out *documentLines) error {
	query := url.Values{"rule": {strings.ToLower(c.Version)}, "name": {c.Name}, "from": {c.From}, "to": {c.To}}
	var bar *term.Gauge
	if c.Branches == "" {
		bar = term.NewGauge(term.Err)
	}
	defer bar.Clear()
	for after := uint64(0); ; {
		query.Set("after", strconv.FormatUint(after, 10))
		var page rulestore.MadePage
		if err := b.Ask(ctx, http.MethodGet, "/admin/rules/documents", query, nil, &page); err != nil {
			return err
		}
		bar.Clear()
		if err := out.write(b, page.Documents); err != nil || page.Next == 0 {
			return err
		}
		after = page.Next
		bar.Show(float64(after)/float64(max(1, page.Of)), fmt.Sprintf("record %d of %d", after, page.Of))
	}
}

// documentLines writes the pages of several branches; the lines of a page stay together.
type documentLines struct {
	mu             sync.Mutex
	json, branches bool
	n              int
}

func (l *documentLines) write(b *adminclient.Gateway, page []rulestore.MadeDocument) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	lines := json.NewEncoder(term.Data())
	for _, d := range page {
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

// documentColumns has fixed widths: a page is printed before the next page is known.
const documentColumns = "%-10s  %-4s  %-36s  %-31s  %-12s  %12s  %-14s  %.12s"

// printComparison prints how a stored document differs from the document that a rule makes from the same facts.
func printComparison(out io.Writer, c *rulestore.Comparison) {
	if len(c.Differences) == 0 {
		term.Fprintf(out, "%s %s %s: %s %s\n", c.Date, c.Control, c.Code, c.Result, c.Error)
	}
	for _, d := range c.Differences {
		term.Fprintf(out, "%s %s %s: %s %s → %s\n", c.Date, c.Control, c.Code, d.Path, cmp.Or(d.Old, "nothing"),
			cmp.Or(d.New, "nothing"))
	}
}

// periodFlags choose documents by their day of issue.
type periodFlags struct {
	From string `help:"First day, yyyy-mm-dd."`
	To   string `help:"Last day, yyyy-mm-dd; default today."`
}

func (p *periodFlags) query() url.Values {
	q := url.Values{"from": {p.From}}
	if p.To != "" { // otherwise the branch uses its own current day
		q.Set("to", p.To)
	}
	return q
}

// progress returns the share of the period, 0 to 1, that lies before a day.
func (p *periodFlags) progress(day string) float64 {
	from, _ := time.Parse(time.DateOnly, p.From) // the appliance has checked both days
	to, _ := time.Parse(time.DateOnly, cmp.Or(p.To, dte.Date(time.Now())))
	at, _ := time.Parse(time.DateOnly, day)
	return min(1, at.Sub(from).Hours()/max(24, to.Sub(from).Hours()+24)) // the branch's clock may be ahead
}

// follow prints the stream of an answer to out and returns its last line.
func (p *periodFlags) follow(ctx context.Context, b *adminclient.Gateway, out io.Writer, method, path string,
	body []byte) (*adminapi.Line, error) {
	var bar *term.Gauge // nil with several branches: BranchFlags.All shows how many are done
	if out == io.Writer(term.Out) {
		bar = term.NewGauge(term.Err)
	}
	defer bar.Clear()
	return b.Follow(ctx, method, path, p.query(), body, func(l *adminapi.Line) error {
		if l.Differs != nil {
			bar.Clear()
			printComparison(out, l.Differs)
		} else {
			bar.Show(p.progress(l.Progress.Day), fmt.Sprintf("%d documents, at %s", l.Progress.Documents,
				l.Progress.Day))
		}
		return nil
	})
}

type backtestCommand struct {
	File string `arg:"" type:"existingfile" help:"Signed bundle; its version does not matter."`
	periodFlags
	adminclient.BranchFlags
}

// Run lists every amount that differs, and the totals by field.
func (c *backtestCommand) Run(ctx context.Context, top *adminclient.Options) error {
	data, err := adminclient.ReadNamed(c.File)
	if err != nil {
		return fmt.Errorf("reading rule bundle: %w", err)
	}
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		return c.backtest(ctx, b, out, data)
	})
}

func (c *backtestCommand) backtest(ctx context.Context, b *adminclient.Gateway, out io.Writer, data []byte) error {
	last, err := c.follow(ctx, b, out, http.MethodPost, "/admin/rules/backtest", data)
	if err != nil {
		return err
	}
	if last.Refused != nil {
		return printActivation(out, last.Refused)
	}
	t := last.Totals
	term.Fprintf(out, "%d documents in %.1f s (%.0f a second)\n", t.Documents, t.Seconds,
		float64(t.Documents)/max(t.Seconds, 1e-3))
	printCounts(out, t.Results)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		f := t.Fields[name]
		term.Fprintf(w, "%s\t%d amounts in %d documents\t%s →\t%s\t\n", name, f.Amounts, f.Documents, f.Old, f.New)
	}
	return w.Flush()
}

func printCounts(out io.Writer, results map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(results)) {
		term.Fprintf(out, "%d %s\n", results[name], name)
	}
}

type replayCommand struct {
	Code string `arg:"" optional:"" help:"codigoGeneracion of one document; without it, a period."`
	periodFlags
	adminclient.BranchFlags
}

// Run fails if a stored document differs from the document that its bundle makes from the same facts.
func (c *replayCommand) Run(ctx context.Context, top *adminclient.Options) error {
	return c.Each(ctx, top, c.replay)
}

func (c *replayCommand) replay(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
	if c.Code != "" {
		var one rulestore.Comparison
		if err := b.Ask(ctx, http.MethodGet, "/admin/rules/replay", url.Values{"code": {c.Code}}, nil,
			&one); err != nil {
			return err
		}
		if one.Result != rulestore.MadeSame {
			printComparison(out, &one)
			return fmt.Errorf("%s is not what %s %s makes of its facts", one.Code, one.Rule.Name, one.Rule.Version)
		}
		term.Fprintf(out, "%s is identical, by %s %s (%.12s)\n", one.Code, one.Rule.Name, one.Rule.Version,
			one.Rule.Digest)
		return nil
	}
	if c.From == "" {
		return errors.New("name a document, or a period with --from")
	}
	last, err := c.follow(ctx, b, out, http.MethodGet, "/admin/rules/replay", nil)
	if err != nil {
		return err
	}
	printCounts(out, last.Replayed)
	total := 0
	for _, n := range last.Replayed {
		total += n
	}
	if other := total - last.Replayed[rulestore.MadeSame]; other > 0 {
		return fmt.Errorf("%d of %d documents are not what their bundles make of their facts", other, total)
	}
	return nil
}
