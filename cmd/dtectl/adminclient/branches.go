package adminclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"dtegate/cmd/term"
)

// silence is the longest wait for a branch's first answer, after which the branch has failed.
const silence = 30 * time.Second

// branchesAtOnce is how many branches of a list are asked at once.
const branchesAtOnce = 16

// BranchFlags name one branch, as Flags do, or a list of branches.
type BranchFlags struct {
	Branches string `type:"existingfile" placeholder:"FILE" help:"List of branches, see deploy/examples/branches.txt."`
	Flags

	Patience time.Duration `kong:"-"` // longest wait for a branch's first answer; 0: silence
}

// Open returns the branches to ask.
func (f *BranchFlags) Open(top *Options) ([]*Gateway, error) {
	if f.Branches == "" {
		g, err := f.Flags.Open(top)
		return []*Gateway{g}, err
	}
	return ReadBranches(f.Branches)
}

// ReadBranches reads a list of branches. The paths of token files are relative to the list's folder.
func ReadBranches(path string) (list []*Gateway, err error) {
	err = ReadList(path, func(line string) error {
		fields := strings.Fields(line)
		if len(fields) != 2 && len(fields) != 3 {
			return errors.New("a line is a URL, a token file, and the fingerprint of the branch's authority")
		}
		if !filepath.IsAbs(fields[1]) {
			fields[1] = filepath.Join(filepath.Dir(path), fields[1])
		}
		g, err := Flags{fields[0], fields[1], strings.Join(fields[2:], "")}.Open(nil)
		list = append(list, g)
		return err
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s names no branch", path)
	}
	return list, err
}

// ReadList calls the function read with each line of a file, except empty lines and comments.
func ReadList(path string, read func(line string) error) error {
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

// Each calls ask for every branch, several branches at once, and prints each branch's output below the branch's URL, in
// the order of the list. A single branch named by the flags gets no URL line. If branches fail, the error names them.
func (f *BranchFlags) Each(ctx context.Context, top *Options, ask func(ctx context.Context, b *Gateway,
	out io.Writer) error) error {
	list, err := f.Open(top)
	if err != nil {
		return err
	}
	if f.Branches == "" {
		return ask(ctx, list[0], term.Out)
	}
	said := make([]bytes.Buffer, len(list))
	faults := f.All(ctx, list, func(i int) error { return ask(ctx, list[i], &said[i]) })
	for i, g := range list {
		term.Fprintf(term.Out, "%s\n", g.URL)
		for line := range strings.Lines(said[i].String()) {
			_, _ = io.WriteString(term.Out, "  "+line)
		}
		if faults[i] != nil {
			term.Fprintf(term.Out, "  FAILED: %v\n", faults[i])
		}
	}
	return Failed(list, faults)
}

// ShowFlags are the flags of a verb that prints the answers of branches.
type ShowFlags struct {
	JSON bool `help:"Write one JSON object, as the appliance answers it; for one branch."`
	BranchFlags
}

// Show sends one request to every branch, and calls print with each answer.
func Show[T any](ctx context.Context, top *Options, f *ShowFlags, method, path string,
	print func(out io.Writer, answer *T) error) error {
	if f.JSON && f.Branches != "" {
		return errors.New("--json: is for one branch")
	}
	return f.Each(ctx, top, func(ctx context.Context, b *Gateway, out io.Writer) error {
		if f.JSON {
			var answer json.RawMessage
			if err := b.Ask(ctx, method, path, nil, nil, &answer); err != nil {
				return err
			}
			return term.JSON(answer)
		}
		answer := new(T)
		if err := b.Ask(ctx, method, path, nil, nil, answer); err != nil {
			return err
		}
		return print(out, answer)
	})
}

// All calls work for each branch of a list, several branches at once, and shows the progress. It returns one error per
// branch. A branch that does not answer within Patience (0: 30 s) fails without a call of work.
func (f *BranchFlags) All(ctx context.Context, list []*Gateway, work func(i int) error) []error {
	var done, failed atomic.Int64
	faults := make([]error, len(list))
	bar := term.NewGauge(term.Err)
	defer bar.Clear()
	var g errgroup.Group
	g.SetLimit(branchesAtOnce)
	for i := range list {
		g.Go(func() error {
			if faults[i] = awake(ctx, list[i], cmp.Or(f.Patience, silence)); faults[i] == nil {
				faults[i] = work(i)
			}
			if faults[i] != nil {
				failed.Add(1)
			}
			n := done.Add(1)
			bar.Show(float64(n)/float64(len(list)), fmt.Sprintf("%d of %d branches, %d failed", n, len(list),
				failed.Load()))
			return nil
		})
	}
	_ = g.Wait() // always nil
	return faults
}

// Failed returns an error that names the failed branches, or nil if there are none.
func Failed(list []*Gateway, faults []error) error {
	var urls []string
	for i, g := range list {
		if faults[i] != nil {
			urls = append(urls, g.URL)
		}
	}
	if len(urls) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d branches failed: %s", len(urls), len(list), strings.Join(urls, " "))
}

// awake makes a small request, and returns an error if the branch does not answer within patience.
func awake(ctx context.Context, g *Gateway, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the branch did not answer within %v", patience))
	defer cancel()
	var s json.RawMessage
	err := g.Ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &s)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
