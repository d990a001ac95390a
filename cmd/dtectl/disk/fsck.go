package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// Fsck is dtectl fsck.
type Fsck struct {
	archiveFlags
	Copy    string   `help:"Look for the affected documents in this second copy, instead of the configured one." type:"existingdir" placeholder:"DIR"`
	Backup  []string `help:"Also look for the affected documents in these backups." type:"existingdir" placeholder:"DIR"`
	Ask     bool     `help:"Also ask the archive and MH, over the network, for the affected documents; MH for 100 of them at most."`
	Verbose bool     `help:"Also print what the storage engine says of the damage."`
}

// Run walks every key of the store, also of one that the appliance refuses to open, alters nothing, and exits non-zero
// when anything is wrong.
func (c *Fsck) Run(ctx context.Context, top *adminclient.Options) error {
	if c.Archive {
		return c.check(ctx, top)
	}
	if c.Read || c.Shared || c.Repair {
		return errors.New("--read, --shared and --repair go with --archive")
	}
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	report, err := storage.Check(ctx, cfg.Store(slog.Default()))
	switch {
	case errors.Is(err, storage.ErrInUse):
		return fmt.Errorf("%w: the appliance must be stopped first", err)
	case err != nil:
		return err
	}
	term.Printf("records   %d\nseries    %d\n", report.Documents, report.Series)
	for _, series := range slices.Sorted(maps.Keys(report.Last)) {
		term.Printf("  %s  1…%d\n", series, report.Last[series])
	}
	for _, l := range report.Lost {
		term.Printf("given up  %s  %d…%d on %s: %s\n", l.Series, l.From, l.To, adminclient.Local(l.At), l.Reason)
	}
	for _, m := range report.Missing {
		term.Printf("missing   %v\n", m)
	}
	for _, p := range report.Problems {
		term.Printf("problem   %v\n", p)
		if c.Verbose && p.Detail != "" {
			term.Printf("          %s\n", p.Detail)
		}
	}
	if err := c.affected(ctx, report, cfg); err != nil {
		return err
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%d problems: do not issue from this store", n)
	}
	term.Printf("integrity: whole\n")
	bad, err := printVouched(term.Out, cfg, storage.OpenReadOnly)
	switch {
	case err != nil:
		return fmt.Errorf("asking who wrote the rules and the acts: %w", err)
	case bad > 0:
		return fmt.Errorf("%d rules or acts are not what this box or the pinned keys vouch for: such a rule computes nothing", bad)
	}
	term.Printf("no problem found\n")
	return nil
}

// affected prints the documents of which something cannot be read, and the media that hold them whole.
func (c *Fsck) affected(ctx context.Context, report *storage.Report, cfg *config.Config) error {
	if len(report.Affected) == 0 {
		return nil
	}
	from := storage.RepairFrom{Copy: cfg.SecondCopy, Backups: c.Backup}
	if c.Copy != "" {
		from.Copy = c.Copy
	}
	if c.Ask {
		from.Part = archivedParts(cfg)
	}
	list, sources, err := storage.Locate(ctx, from, report.Affected, cfg.Store(slog.New(slog.DiscardHandler)))
	if ctx.Err() != nil {
		return err
	}
	if err != nil { // the documents are named all the same
		term.Printf("no medium was searched: %v\n", err)
		list = nil
		for _, a := range report.Affected {
			list = append(list, storage.Located{Affected: a})
		}
	}
	sealed := make(map[storage.Code]string)
	if c.Ask {
		sealed = askAuthority(ctx, cfg, list)
	}
	for _, s := range sources {
		if len(s.Bad) > 0 {
			term.Printf("%s: cannot be read: %s\n", s.Name, strings.Join(s.Bad, ", "))
		}
	}
	held := 0
	for _, l := range list {
		term.Printf("document  %s\n", locatedText(l, sealed[l.Code]))
		if len(l.Media) > 0 {
			held++
		}
	}
	if held > 0 {
		term.Printf("dtectl repair takes these documents from the media that hold them; name the same --copy and --backup to it\n")
	}
	if !c.Ask {
		term.Printf("the archive and MH were not asked: --ask\n")
	}
	return nil
}

// locatedText says of a document what of it cannot be read, and where it is whole; seal is what MH holds it under.
func locatedText(l storage.Located, seal string) string {
	numbers := fmt.Sprint(l.From)
	if l.To != l.From {
		numbers = fmt.Sprintf("%d…%d", l.From, l.To)
	}
	text := fmt.Sprintf("%s  %s", l.Series, numbers)
	if l.Code != (storage.Code{}) {
		text += "  " + dte.Code(l.Code).String()
	}
	text += "  " + l.What + " cannot be read; "
	var media []string
	for _, h := range l.Media {
		if h.Older {
			h.Medium += " (an earlier state)"
		}
		media = append(media, h.Medium)
	}
	if media == nil {
		text += "in no medium that was searched"
	} else {
		text += "whole in " + strings.Join(media, ", ")
	}
	if seal != "" {
		text += "; MH holds it, seal " + seal
	}
	return text
}

// askedOfAuthority is how many documents fsck asks MH for.
const askedOfAuthority = 100

// askAuthority asks MH for the documents whose codes are known, and no more once MH does not answer. It returns the seals. No
// medium of the branch can be repaired from them: they show that a document was accepted.
func askAuthority(ctx context.Context, cfg *config.Config, list []storage.Located) map[storage.Code]string {
	sealed := make(map[storage.Code]string)
	password, err := config.ReadSecret("authority.password_file", cfg.Authority.PasswordFile)
	if err != nil {
		term.Printf("MH was not asked: %v\n", err)
		return sealed
	}
	way := cfg.Authority.Link()
	defer way.Close()
	client := authority.New(authority.Options{BaseURL: cfg.Authority.URL, NIT: cfg.Issuer.NIT, Password: authority.Password(password), Ambiente: cfg.Ambiente,
		UserAgent: "dtectl fsck", Transport: way, Now: cfg.Now, AnswerTimeout: time.Duration(cfg.Authority.AnswerTimeout), Rehearsal: cfg.Authority.Rehearsal})
	asked := 0
	for _, l := range list {
		series := strings.Split(l.Series, "/")
		if l.Code == (storage.Code{}) || len(series) != 5 {
			continue
		}
		if asked++; asked > askedOfAuthority {
			term.Printf("MH was asked for %d documents, and for no more\n", askedOfAuthority)
			break
		}
		o := client.Query(ctx, series[1], dte.Code(l.Code).String())
		if o.Kind == authority.Unknown {
			term.Printf("MH does not answer: %v\n", o.Err)
			break
		}
		if o.Kind == authority.Accepted {
			sealed[l.Code] = o.Response.SelloRecibido
		}
	}
	return sealed
}
