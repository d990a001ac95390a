package bundles

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	adminclient.Flags
}

// Run reads the branch's documents page by page, and prints each page before it reads the next.
func (c *documentsCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	query := url.Values{"rule": {strings.ToLower(c.Version)}, "name": {c.Name}, "from": {c.From}, "to": {c.To}}
	bar, n := term.NewGauge(term.Err), 0
	for after, more := uint64(0), true; more; {
		query.Set("after", strconv.FormatUint(after, 10))
		var page rulestore.MadePage
		err := b.Ask(ctx, http.MethodGet, "/admin/rules/documents", query, nil, &page)
		bar.Clear()
		if err == nil {
			err = c.print(page.Documents, n == 0)
		}
		if err != nil {
			return err
		}
		n += len(page.Documents)
		after, more = page.Next, page.Next > 0
		bar.Show(float64(after)/float64(max(1, page.Of)), fmt.Sprintf("record %d of %d", after, page.Of))
	}
	bar.Clear()
	term.Fprintf(term.Err, "%d documents\n", n)
	return nil
}

func (c *documentsCommand) print(page []rulestore.MadeDocument, first bool) error {
	if first && len(page) > 0 && !c.JSON {
		term.Printf(documentColumns, "DATE", "TYPE", "CODE", "CONTROL NUMBER", "STATE", "TOTAL", "RULE", "DIGEST")
	}
	lines := json.NewEncoder(term.Data())
	for _, d := range page {
		if c.JSON {
			if err := lines.Encode(d); err != nil {
				return err
			}
			continue
		}
		term.Printf(documentColumns, d.Date, d.Document, d.Code, d.Control, d.Estado, d.Total,
			d.Rule.Name+" "+d.Rule.Version, d.Rule.Digest)
	}
	return nil
}

// documentColumns has fixed widths: a page is printed before the next page is known.
const documentColumns = "%-10s  %-4s  %-36s  %-31s  %-12s  %12s  %-14s  %.12s\n"

// printComparison prints how a stored document differs from the document that a rule makes from the same facts.
func printComparison(c *rulestore.Comparison) {
	if len(c.Differences) == 0 {
		term.Printf("%s %s %s: %s %s\n", c.Date, c.Control, c.Code, c.Result, c.Error)
	}
	for _, d := range c.Differences {
		term.Printf("%s %s %s: %s %s → %s\n", c.Date, c.Control, c.Code, d.Path, cmp.Or(d.Old, "nothing"),
			cmp.Or(d.New, "nothing"))
	}
}

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

// follow prints the stream of an answer and returns its last line.
func (p *periodFlags) follow(ctx context.Context, b *adminclient.Gateway, method, path string, body []byte) (
	*adminapi.Line, error) {
	bar := term.NewGauge(term.Err)
	defer bar.Clear()
	return b.Follow(ctx, method, path, p.query(), body, func(l *adminapi.Line) error {
		if l.Differs != nil {
			bar.Clear()
			printComparison(l.Differs)
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
	adminclient.Flags
}

// Run lists every amount that differs, and the totals by field.
func (c *backtestCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	data, err := adminclient.ReadNamed(c.File)
	if err != nil {
		return fmt.Errorf("reading rule bundle: %w", err)
	}
	last, err := c.follow(ctx, b, http.MethodPost, "/admin/rules/backtest", data)
	if err != nil {
		return err
	}
	if last.Refused != nil {
		return printActivation(last.Refused)
	}
	t := last.Totals
	term.Printf("%d documents in %.1f s (%.0f a second)\n", t.Documents, t.Seconds,
		float64(t.Documents)/max(t.Seconds, 1e-3))
	printCounts(t.Results)
	w := tabwriter.NewWriter(term.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		f := t.Fields[name]
		term.Fprintf(w, "%s\t%d amounts in %d documents\t%s →\t%s\t\n", name, f.Amounts, f.Documents, f.Old, f.New)
	}
	return w.Flush()
}

func printCounts(results map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(results)) {
		term.Printf("%d %s\n", results[name], name)
	}
}

type replayCommand struct {
	Code string `arg:"" optional:"" help:"codigoGeneracion of one document; without it, a period."`
	periodFlags
	adminclient.Flags
}

// Run fails if a stored document differs from the document that its bundle makes from the same facts.
func (c *replayCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	if c.Code != "" {
		var one rulestore.Comparison
		if err := b.Ask(ctx, http.MethodGet, "/admin/rules/replay", url.Values{"code": {c.Code}}, nil,
			&one); err != nil {
			return err
		}
		if one.Result != rulestore.MadeSame {
			printComparison(&one)
			return fmt.Errorf("%s differs from what %s %s makes of its facts", one.Code, one.Rule.Name,
				one.Rule.Version)
		}
		term.Printf("%s is identical, by %s %s (%.12s)\n", one.Code, one.Rule.Name, one.Rule.Version, one.Rule.Digest)
		return nil
	}
	if c.From == "" {
		return errors.New("name a document, or a period with --from")
	}
	last, err := c.follow(ctx, b, http.MethodGet, "/admin/rules/replay", nil)
	if err != nil {
		return err
	}
	printCounts(last.Replayed)
	total := 0
	for _, n := range last.Replayed {
		total += n
	}
	if other := total - last.Replayed[rulestore.MadeSame]; other > 0 {
		return fmt.Errorf("%d of %d documents differ from what their bundles make of their facts", other, total)
	}
	return nil
}
