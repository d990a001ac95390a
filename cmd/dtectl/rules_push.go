package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"dtegate/cmd/screen"
)

type rulesPushCommand struct {
	Files    []string `arg:"" type:"existingfile" help:"Signed bundles."`
	Branches string   `type:"existingfile" help:"Branches, one a line: URL of the operators' listener, the file of its admin token, and the fingerprint of its authority."`
	Parallel int      `default:"16" help:"Branches at once."`
	Dry      bool     `help:"Only go through the steps; change nothing."`
	Reason   string   `help:"Why, for the branches' records."`
	gatewayFlags
}

// Run can be repeated: a branch that has a bundle already is left as it is. It fails when one branch did, and names
// those.
func (c *rulesPushCommand) Run(ctx context.Context, top *cli) error {
	files, err := readBundles(c.Files)
	if err != nil {
		return err
	}
	branches, err := c.branches(top)
	if err != nil {
		return err
	}
	results := make([]*pushed, len(branches))
	var done, failed atomic.Int64
	bar := newGauge(screen.Err)
	var g errgroup.Group
	g.SetLimit(max(1, c.Parallel))
	for i, b := range branches {
		g.Go(func() error {
			results[i] = c.push(ctx, b, files)
			if results[i].err != nil {
				failed.Add(1)
			}
			n := done.Add(1)
			bar.show(float64(n)/float64(len(branches)), fmt.Sprintf("%d of %d branches, %d failed", n, len(branches), failed.Load()))
			return nil
		})
	}
	_ = g.Wait() // every failure is in the results
	bar.clear()
	return report(screen.Out, results)
}

func (c *rulesPushCommand) branches(top *cli) ([]*gateway, error) {
	if c.Branches == "" {
		g, err := c.open(top)
		return []*gateway{g}, err
	}
	f, err := os.Open(c.Branches)
	if err != nil {
		return nil, fmt.Errorf("reading branches: %w", err)
	}
	defer f.Close()
	var list []*gateway
	for lines, n := bufio.NewScanner(f), 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 && len(fields) != 3 {
			return nil, fmt.Errorf("%s:%d: a line is a URL, a token file, and the fingerprint of the branch's authority", c.Branches, n)
		}
		if !filepath.IsAbs(fields[1]) {
			fields[1] = filepath.Join(filepath.Dir(c.Branches), fields[1])
		}
		g := &gateway{url: fields[0], client: http.DefaultClient}
		if len(fields) == 3 {
			if g.client, err = pinned(fields[2]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", c.Branches, n, err)
			}
		}
		if err := cmp.Or(g.safe(), g.readToken(fields[1])); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", c.Branches, n, err)
		}
		list = append(list, g)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no branch", c.Branches)
	}
	return list, nil
}

// pushed is what became of a branch.
type pushed struct {
	branch *gateway
	lines  [][3]string // bundle, result, time or reason
	err    error
}

// push sends bundles in their order; the first that fails ends it.
func (c *rulesPushCommand) push(ctx context.Context, b *gateway, files []*bundleFile) *pushed {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	p := &pushed{branch: b}
	add := func(f *bundleFile, result, detail string) {
		p.lines = append(p.lines, [3]string{f.String(), result, detail})
	}
	var has shelfListing
	if p.err = b.ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &has); p.err != nil {
		add(files[0], "FAILED", p.err.Error())
		return p
	}
	for _, f := range files {
		if state := has.state(f.digest); state == "live" || state == "coming" {
			add(f, state, "was there already")
			continue
		}
		query := url.Values{"reason": {c.Reason}}
		if c.Dry {
			query.Set("dry", "1")
		}
		var a activation
		began := time.Now()
		if p.err = b.ask(ctx, http.MethodPost, "/admin/rules", query, f.data, &a); p.err != nil {
			add(f, "FAILED", p.err.Error())
			return p
		}
		if a.Refused != "" {
			p.err = fmt.Errorf("%s: %s", a.Refused, a.Error)
			add(f, "REFUSED", p.err.Error())
			return p
		}
		detail := fmt.Sprintf("%d steps, %v", len(a.Steps), time.Since(began).Round(time.Millisecond))
		switch a.State {
		case "":
			a.State = "would pass"
		case "coming":
			detail = "from " + a.From + ", " + detail
		}
		add(f, a.State, detail)
	}
	return p
}

// report prints a line a branch and bundle, and fails when a branch has.
func report(out io.Writer, results []*pushed) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	screen.Fprintf(w, "BRANCH\tBUNDLE\tRESULT\t\n")
	var failed []string
	for _, r := range results {
		for _, l := range r.lines {
			screen.Fprintf(w, "%s\t%s\t%s\t%s\n", r.branch.url, l[0], l[1], l[2])
		}
		if r.err != nil {
			failed = append(failed, r.branch.url)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d branches failed: %s", len(failed), len(results), strings.Join(failed, " "))
	}
	return nil
}

type rulesActivateCommand struct {
	Files  []string `arg:"" type:"existingfile" help:"Signed bundles."`
	Reason string   `help:"Why, for the branch's record."`
	gatewayFlags
}

// Run is a push to one branch that shows every step.
func (c *rulesActivateCommand) Run(ctx context.Context, top *cli) error {
	files, err := readBundles(c.Files)
	if err != nil {
		return err
	}
	b, err := c.open(top)
	if err != nil {
		return err
	}
	for _, f := range files {
		var a activation
		if err := b.ask(ctx, http.MethodPost, "/admin/rules", url.Values{"reason": {c.Reason}}, f.data, &a); err != nil {
			return err
		}
		if err := a.print(screen.Out); err != nil {
			return err
		}
	}
	return nil
}

// gauge is a progress bar on a terminal; elsewhere it shows nothing.
type gauge struct {
	mu  sync.Mutex
	out *screen.Writer // nil: nobody looks
}

func newGauge(out *screen.Writer) *gauge {
	if !out.Terminal() {
		out = nil
	}
	return &gauge{out: out}
}

func (b *gauge) show(part float64, text string) {
	if b.out == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	const width = 30
	n := int(min(1, max(0, part)) * width)
	line := []rune(fmt.Sprintf("[%s%s] %s", strings.Repeat("#", n), strings.Repeat("·", width-n), text))
	const narrowest = 79 // a line that breaks cannot be redrawn
	if len(line) > narrowest {
		line = append(line[:narrowest-1], '…')
	}
	b.out.Redraw(string(line))
}

func (b *gauge) clear() {
	if b.out != nil {
		b.out.Redraw("")
	}
}
