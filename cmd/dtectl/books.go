package main

import (
	"bytes"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/books"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/engine/sign"
	"dtegate/storage"
)

type booksCommand struct {
	Month       string   `placeholder:"2026-11" help:"Month of issue; default with --explain: the document's month."`
	Out         string   `type:"path" placeholder:"DIR" help:"Folder for the files; replaces books that are in it."`
	Backup      []string `type:"existingdir" placeholder:"DIR" help:"Read these backups, one of each branch."`
	Certificate []string `type:"existingfile" placeholder:"FILE" help:"With --backup: certificates, past ones too."`
	Explain     string   `placeholder:"CODE" help:"Only show where a document is in the books, and why."`
	Received    string   `type:"existingdir" placeholder:"DIR" help:"Suppliers' JSON files: adds annexes 3, 6, 7, 8."`
	NoPDF       bool     `name:"no-pdf" help:"Leave out the books as PDF."`
}

// Run makes the accountant's files of a month from the running appliance or from backups.
func (c *booksCommand) Run(ctx context.Context, top *adminclient.Options) error {
	if err := c.check(); err != nil {
		return err
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10) // the selling appliance goes first
	sources, settings, err := c.open(ctx, top)
	for _, s := range sources {
		defer s.close()
	}
	if err != nil {
		return err
	}
	if c.Explain != "" {
		return c.explain(sources, settings)
	}
	return c.make(ctx, sources, settings, top)
}

func (c *booksCommand) check() error {
	switch {
	case (len(c.Backup) > 0) != (len(c.Certificate) > 0):
		return errors.New("--certificate: with --backup, name each certificate file (NIT.crt) of the taxpayer that " +
			"signed in the month: only the signatures prove that nobody altered a backup")
	case c.Month != "" && !documents.IsMonth(c.Month):
		return fmt.Errorf("--month: %q is not a month like 2026-11", c.Month)
	case c.Explain != "":
		if _, err := dte.ParseCode(c.Explain); err != nil {
			return fmt.Errorf("--explain: %w", err)
		}
		return nil
	case c.Month == "":
		return errors.New("--month: which month, like 2026-11")
	case c.Out == "":
		return errors.New("--out: which folder to make the files in")
	}
	return nil
}

// bookSource supplies the documents: the running appliance, or a backup.
type bookSource struct {
	name string
	from interface {
		Page(month string, after uint64) (*documents.MonthPage, error)
		Document(code dte.Code) (*books.Document, error)
	}
	close func()
	rest  bool // pause between pages, because the source is the running appliance, which is selling
}

// open opens the sources of the books; the caller closes them, even after an error. If the sources are backups, the
// configuration may be missing, or have only the section [books].
func (c *booksCommand) open(ctx context.Context, top *adminclient.Options) (list []*bookSource, s books.Settings,
	err error) {
	if len(c.Backup) == 0 {
		cfg, err := config.Load(top.Config)
		if err != nil {
			return nil, s, err
		}
		g, err := adminclient.OwnGateway(cfg)
		if err != nil {
			return nil, s, err
		}
		return []*bookSource{{name: "the running appliance", from: running(ctx, g), rest: true,
			close: func() {}}}, cfg.Books, nil
	}
	set, err := config.LoadBooks(top.Config)
	switch {
	case err == nil:
		s = *set
	case errors.Is(err, fs.ErrNotExist):
		term.Fprintf(term.Err, "no configuration %s: the settings of [books] take their defaults\n", top.Config)
	default:
		return nil, s, err
	}
	signers := make([]*rsa.PublicKey, len(c.Certificate))
	for i, file := range c.Certificate {
		data, err := os.ReadFile(file)
		if err == nil {
			signers[i], err = sign.ParsePublic(data)
		}
		if err != nil {
			return nil, s, fmt.Errorf("--certificate: %s: %w", file, err)
		}
	}
	for _, dir := range c.Backup {
		store, err := storage.OpenBackup(dir, storage.Options{Logger: slog.Default(), Now: time.Now})
		if err != nil {
			return list, s, err
		}
		list = append(list, &bookSource{name: dir, from: documents.NewMonthReader(store, signers...),
			close: func() { _ = store.Close() }}) // the store was only read: an error loses nothing
	}
	return list, s, nil
}

// askMonth asks the running appliance for documents of a month.
type askMonth func(url.Values) (*documents.MonthPage, error)

func running(ctx context.Context, g *adminclient.Gateway) askMonth {
	runtime.GOMAXPROCS(1) // leave the other cores to the tills
	return func(query url.Values) (*documents.MonthPage, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		p := new(documents.MonthPage)
		err := g.Ask(ctx, http.MethodGet, "/admin/books", query, nil, p)
		return p, err
	}
}

func (a askMonth) Page(month string, after uint64) (*documents.MonthPage, error) {
	return a(url.Values{"month": {month}, "after": {strconv.FormatUint(after, 10)}})
}

func (a askMonth) Document(code dte.Code) (*books.Document, error) {
	p, err := a(url.Values{"code": {code.String()}})
	if err == nil && len(p.Documents) != 1 {
		err = fmt.Errorf("the appliance answered %d documents", len(p.Documents))
	}
	if err != nil {
		return nil, err
	}
	return &p.Documents[0], nil
}

// make writes the books into a temporary folder, and renames the folder to --out when it is complete.
func (c *booksCommand) make(ctx context.Context, sources []*bookSource, settings books.Settings,
	top *adminclient.Options) error {
	if err := c.replaceable(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.Out), 0o700); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(filepath.Dir(c.Out), ".books-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	o := books.Options{Month: c.Month, Settings: settings, Dir: aside, Made: adminclient.Local(time.Now()),
		Received: c.Received != ""}
	if !c.NoPDF {
		printer, err := pdf.New(pdf.Options{})
		if err != nil {
			return err
		}
		o.Print = printer.Book
	}
	b, err := books.New(o)
	if err != nil {
		return err
	}
	if err := collect(ctx, sources, c.Month, b); err != nil {
		return err
	}
	if c.Received != "" {
		if err := c.receive(b, top); err != nil {
			return err
		}
	}
	if err := b.Finish(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(c.Out), os.Rename(aside, c.Out)); err != nil {
		return err
	}
	for _, f := range b.Files() {
		term.Printf("%-27s %6d rows %7d documents\n", f.Name, f.Rows, f.Documents)
	}
	if c.Received != "" {
		nowhere := slices.DeleteFunc(b.Received(), func(r books.ReceivedFile) bool { return r.Motive == "" })
		term.Printf("received, in no file %d documents: %s names them\n", len(nowhere), books.SummaryName)
	}
	if nowhere, notes := b.Nowhere(); nowhere+notes > 0 {
		term.Printf("in no file %d documents, remarks %d: %s names them\n", nowhere, notes, books.SummaryName)
	}
	return nil
}

// maxReceived is the largest size of a supplier's file that is read, in bytes.
const maxReceived = 8 << 20

// receive reads the suppliers' .json files, whatever their names, and skips all other files.
func (c *booksCommand) receive(b *books.Book, top *adminclient.Options) error {
	to, ok := b.Addressee()
	if !ok { // the month has no document that the taxpayer issued
		cfg, err := config.Load(top.Config)
		if err != nil {
			return fmt.Errorf("--received: the month has no document that names the taxpayer: %w", err)
		}
		to = books.Addressee{NIT: cfg.Issuer.NIT, NRC: cfg.Issuer.NRC, Test: cfg.Ambiente != "01"}
	}
	return filepath.WalkDir(c.Received, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.EqualFold(filepath.Ext(file), ".json") {
			return err
		}
		name, err := filepath.Rel(c.Received, file)
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > maxReceived {
			return errors.Join(err, b.Receive(name, nil, to))
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return b.Receive(name, bytes.TrimPrefix(data, []byte("\ufeff")), to)
	})
}

// After each page from the running appliance, the pause is restsPerPage times as long as the page took.
const restsPerPage = 3

func collect(ctx context.Context, sources []*bookSource, month string, b *books.Book) error {
	bar := term.NewGauge(term.Err)
	defer bar.Clear()
	var altered []error
	for i, s := range sources {
		for after, more := uint64(0), true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := time.Now()
			p, err := s.from.Page(month, after)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			for k := range p.Documents {
				if err := b.Add(p.Documents[k]); errors.Is(err, books.ErrAltered) {
					altered = append(altered, fmt.Errorf("%s: %w", s.name, err))
				} else if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			if s.rest {
				time.Sleep(restsPerPage * time.Since(start)) // leave the box to the tills
			}
			share := float64(p.Done) / float64(max(1, p.Total))
			bar.Of(int64((float64(i)+share)*1000), int64(len(sources))*1000)
			after, more = p.Next, p.Next > 0
		}
	}
	if n := len(altered); n > 0 {
		return fmt.Errorf("%w\nno books were made: %d documents are not as they were signed. A past certificate is "+
			"missing, or somebody altered the backup: see The month's books in the runbook",
			errors.Join(altered[:min(n, 20)]...), n)
	}
	return nil
}

// replaceable refuses a folder that contains any file except books.
func (c *booksCommand) replaceable() error {
	entries, err := os.ReadDir(c.Out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !books.IsFile(e.Name()) {
			return fmt.Errorf("--out: %s holds %s, which is not a file of books: name another folder", c.Out, e.Name())
		}
	}
	return nil
}

// explain prints where a document is in the books of --month or, by default, of the months of issue and invalidation.
func (c *booksCommand) explain(sources []*bookSource, settings books.Settings) error {
	code, missed := dte.ParseCode(c.Explain)
	var d *books.Document
	for i := 0; d == nil; i++ {
		if i == len(sources) {
			return missed
		}
		var err error
		if d, err = sources[i].from.Document(code); err != nil {
			d, missed = nil, errors.Join(missed, fmt.Errorf("%s: %w", sources[i].name, err))
		}
	}
	months := []string{c.Month}
	if c.Month == "" {
		months = []string{d.Date[:7]}
		if len(d.Invalidated) >= 7 && d.Invalidated[:7] != d.Date[:7] {
			months = append(months, d.Invalidated[:7])
		}
	}
	term.Printf("%s  type %s  %s  %s  %s  total %s\n", d.Code, d.Type, d.ControlNumber, d.Date, d.State, d.Total)
	for _, month := range months {
		e, err := books.Explain(*d, month, settings)
		if err != nil {
			return err
		}
		printExplanation(e)
	}
	return nil
}

func printExplanation(e *books.Explanation) {
	term.Printf("\nbooks of %s\n", e.Month)
	if e.Motive != "" {
		term.Printf("  in no file: %s\n", e.Motive)
	}
	if e.Motive == "" && len(e.Places) == 0 {
		term.Printf("  nothing: the document is of another month\n")
	}
	for _, p := range e.Places {
		term.Printf("  %s: %s\n", p.File, p.Why)
		for _, cell := range p.Cells {
			name := cell.Name
			if cell.Page > 0 {
				name += fmt.Sprintf(" (p. %d)", cell.Page)
			}
			term.Printf("    %-2s %-60s %s\n", cell.Letter, name, cell.Value)
		}
	}
	for _, n := range e.Notes {
		term.Printf("  note: %s\n", strings.TrimSpace(n))
	}
}
