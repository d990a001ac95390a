package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
)

type Recover struct {
	From       []string `help:"A backup, a second copy or a mark; \"fleet\": what the box shipped." placeholder:"PATH"`
	Epoch      int64    `help:"Use the copy that the box of this epoch shipped; default: the last whole one."`
	DryRun     bool     `help:"Show what would be done and lost, and change nothing."`
	AcceptLoss []string `help:"Numbers that are lost: \"M001P001 01: 17-19\", or none." sep:"none" placeholder:"LOSS"`
	Ask        bool     `help:"Ask MH for at most 100 of the lost documents, over the network."`
	Reason     string   `help:"Why, for the journal."`
}

// Exit codes of recover.
const (
	exitLoss   = 3 // the operator must accept a loss by name
	exitSource = 4 // another medium is needed
	exitToDo   = 5 // a dry run found work, and nothing would be lost
)

func (*Recover) Help() string {
	return `It looks at every medium (the store, its mark, the second copy, what the box shipped to the chain's store,
and what --from names), takes from each what the journals prove, and makes the store whole again. What was there before
stays beside it. It prints how far each medium reaches, what is lost by series and number, and the one next
command. The appliance must be stopped. It can be repeated.

The store gives numbers again as soon as no loss is open. Each loss must be accepted by name: type the command that is
printed.

Exit status: 0 the store gives numbers, or there was nothing to do; 1 an error; 3 a loss must be named; 4 another medium
is needed; 5 a dry run found work to do, and nothing would be lost.`
}

type exitError struct {
	error
	status int
}

func (e exitError) ExitCode() int { return e.status }
func (e exitError) Unwrap() error { return e.error }

func exit(status int, format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), status}
}

type recovery struct {
	*Recover
	cfg  *config.Config
	mark string // the mark file that --from names; "": the path at which the store last used its mark
	// the store is sound, but a medium could not be compared with it
	unread bool
	from   storage.Sources
	more   []string // second copies that are read after from.Copy, one by one
	second string   // the copy that proves a new mark, never a shipped one, which may lack the last answered sales
	o      storage.Options
}

// Run makes a store whole again, and settles which numbers were used.
func (c *Recover) Run(ctx context.Context, cfg *config.Config) error {
	r := &recovery{Recover: c, cfg: cfg, o: cfg.Store(slog.New(slog.DiscardHandler))}
	r.o.Fatal = func(message string) {
		term.Fprintf(term.Err, "dtectl: error: %s; when the disk takes writes again, run the same command\n", message)
	}
	r.from = storage.Sources{Copy: cfg.SecondCopy, Part: archivedParts(cfg), Possible: possibleSeries(cfg),
		Dry: c.DryRun}
	if err := r.sources(ctx); err != nil {
		return err
	}
	owed, done, err := r.assemble(ctx)
	lacks := r.from.Lacks
	for _, path := range r.more {
		if err != nil && !errors.Is(err, storage.ErrNoStore) && !errors.Is(err, storage.ErrCorrupt) {
			break
		}
		if r.DryRun && done {
			term.Printf("after that, %s is read: a dry run shows neither what it adds nor what would be lost\n",
				path)
			continue
		}
		var added bool
		r.from = storage.Sources{Copy: path, Part: r.from.Part, Possible: r.from.Possible, Dry: r.DryRun}
		owed, added, err = r.assemble(ctx)
		done = done || added
	}
	r.from.Lacks = lacks
	switch {
	case err != nil:
		return err
	case done && c.DryRun && owed == nil:
		return exit(exitToDo, "nothing would be lost: dtectl recover does it")
	case done && c.DryRun:
		_, err := r.named(owed)
		return err
	}
	return r.settle(ctx, done)
}

// sources sorts the paths of --from into mark, second copies and backups. It fetches the shipped copy if --from or
// --epoch asks for it, or if there is no store, no other copy and no backup. The configured second copy comes last.
func (r *recovery) sources(ctx context.Context) error {
	fleet, copies := r.Epoch > 0, []string(nil)
	for _, path := range r.From {
		if path == "fleet" {
			fleet = true
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return exit(exitSource, "--from: %w", err)
		}
		segments, _ := filepath.Glob(filepath.Join(path, "*.copy")) // the pattern is valid
		switch path, err = filepath.Abs(path); {
		case err != nil:
			return err
		case !info.IsDir():
			r.mark = path
		case len(segments) > 0:
			copies = append(copies, path)
		default:
			r.from.Backups = append(r.from.Backups, path)
		}
	}
	_, gone := os.Stat(r.cfg.Data)
	_, waits := os.Stat(r.cfg.Data + ".repaired") // the repaired store, not yet renamed
	if r.second = r.cfg.SecondCopy; len(copies) > 0 && copies[0] != r.fetched() {
		r.second = copies[0]
	}
	segments, _ := filepath.Glob(filepath.Join(r.cfg.SecondCopy, "*.copy"))
	fleet = fleet || r.cfg.Fleet != nil && gone != nil && waits != nil && len(copies)+len(segments) == 0 &&
		len(r.from.Backups) == 0
	_, bad := os.ReadDir(r.cfg.SecondCopy) // Glob returns no error if the card cannot be read
	if r.cfg.SecondCopy != "" && (len(segments) > 0 || bad != nil && !errors.Is(bad, fs.ErrNotExist)) &&
		!slices.Contains(copies, r.cfg.SecondCopy) {
		copies = append(copies, r.cfg.SecondCopy)
	}
	if fleet {
		r.more = copies
		return r.fetch(ctx)
	}
	if len(copies) > 0 {
		r.from.Copy, r.more = copies[0], copies[1:]
	}
	return nil
}

// fetch downloads the copy that the branch's box shipped, into a folder beside the store. The next call continues an
// interrupted download.
func (r *recovery) fetch(ctx context.Context) error {
	if r.cfg.Fleet == nil {
		return errors.New("--from fleet: the configuration has no [fleet]")
	}
	directors, err := r.cfg.Fleet.Directors()
	if err != nil {
		return err
	}
	store, err := r.cfg.Fleet.Open()
	if err != nil {
		return err
	}
	folder := r.fetched()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("making the folder for the copy: %w", err)
	}
	bar := term.NewGauge(term.Err)
	got, err := ship.Fetch(ctx, store, r.cfg.Chain(), directors, r.cfg.Fleet.Branch, r.Epoch, folder, bar.Of)
	bar.Clear()
	if err != nil {
		err = fmt.Errorf("fetching the second copy of %s: %w", r.cfg.Fleet.Branch, err)
		if got.Bytes == 0 {
			return exitError{errors.Join(err, ship.Remove(folder)), exitSource}
		}
		return exit(exitSource, "%w\nthe %d bytes that were fetched stay in %s: the same command continues from there",
			err, got.Bytes, folder)
	}
	if got.Before > 0 {
		term.Printf("%d of the bytes had been fetched before\n", got.Before)
	}
	if got.Doubt != nil {
		term.Printf("a combined part of the copy cannot be used; its single pieces were read instead: %v\n", got.Doubt)
	}
	term.Printf("fetched the second copy of %s: %d pieces, %d bytes, shipped by the box of epoch %d; %d parts "+
		"were read\n", r.cfg.Fleet.Branch, got.Pieces, got.Bytes, got.Epoch, got.Parts)
	if len(got.Older) > 0 && !got.Whole {
		term.Printf("boxes of earlier epochs also shipped, the latest in epoch %[1]d. If the box of epoch %[2]d died "+
			"before\nits whole copy was shipped, the copy of epoch %[1]d has the missing part: dtectl recover --epoch "+
			"%[1]d;\nthen the numbers of the box of epoch %[2]d are not proven\n",
			got.Older[len(got.Older)-1], got.Epoch)
	}
	r.from.Copy, r.from.Lacks = folder, got.Lacks()
	if got.Status != nil {
		r.from.Last = got.Status.Last
	}
	if s := got.Status; s != nil && s.Copy != nil {
		term.Printf("the fetched copy is compared with the box's last status, of %s, which names piece %d. The "+
			"chain's\nstore may have lost pieces that the box shipped after that status\n",
			adminclient.Local(s.At), s.Copy.Segment)
	}
	if r.from.Lacks != "" {
		term.Printf("NOT COMPLETE: %s\n", r.from.Lacks)
	}
	return nil
}

func (r *recovery) fetched() string { return filepath.Clean(r.cfg.Data) + ".copy" }

// assemble makes a new store if necessary. done reports whether it made a store or, with --dry-run, would make one.
func (r *recovery) assemble(ctx context.Context) (owed *storage.Owed, done bool, err error) {
	_, gone := os.Stat(r.cfg.Data)
	bar := term.NewGauge(term.Err)
	made, err := storage.Assemble(ctx, r.from, r.o, bar.Of)
	bar.Clear()
	if made != nil && made.Sources != nil {
		printMedia(term.Out, made.Sources)
	}
	switch {
	case errors.Is(err, storage.ErrSound):
		r.unread = r.unread || slices.ContainsFunc(made.Sources, func(s storage.Source) bool { return s.Bad != nil })
		return nil, false, nil
	case errors.Is(err, storage.ErrForeign):
		return nil, false, exit(exitSource, "take another branch's medium out, or move its store away. Put in this "+
			"branch's, or name what this box shipped (--from fleet): %w", err)
	case errors.Is(err, storage.ErrUnreadable) && gone == nil:
		return nil, false, exit(exitSource,
			"no number is given up while the second copy may have documents that the store lacks: put the card in "+
				"again, or into another reader; if the card is dead, take it out and repeat the command: %w", err)
	case errors.Is(err, storage.ErrDiverged), errors.Is(err, storage.ErrCorrupt) && gone == nil:
		r.unread = r.unread || errors.Is(err, storage.ErrCorrupt)
		term.Printf("nothing was taken from that medium: %v\n", err)
		return made.Owed, made.Owed != nil && r.DryRun, nil
	case errors.Is(err, storage.ErrNoStore), errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrUnreadable):
		return nil, false, exit(exitSource, "no medium holds a store; name another with --from: %w", err)
	case errors.Is(err, storage.ErrMark):
		return nil, false, exit(exitSource, "the mark or the source is another store's: put in this box's. Only if "+
			"the right mark is gone for good, move this file away: the mark is then taken as lost: %w", err)
	case err != nil:
		return nil, false, err
	}
	term.Printf("records          %d\n", made.Documents)
	if made.Damaged != "" {
		term.Printf("the damaged store lies in %s; delete it when you are sure that nothing is missing\n", made.Damaged)
	}
	for _, l := range made.Lacking {
		term.Printf("lacks            %s  %d  %s  %s\n", l.Series, l.From, dte.Code(l.Code), l.What)
	}
	if r.Ask {
		askAuthority(ctx, r.cfg, made.Lacking)
	}
	if made.Whole {
		term.Printf("nothing is missing: every series continues after its last number\n")
	}
	if r.DryRun {
		return made.Owed, true, nil
	}
	if r.from.Copy == r.fetched() && r.from.Lacks == "" {
		err = ship.Remove(r.from.Copy)
	}
	if _, bad := printVouched(term.Out, r.cfg, storage.OpenReadOnly); bad != nil {
		// no error: the new store must still be settled
		term.Printf("who wrote the rules and the acts is not known: %v\n", bad)
	}
	return made.Owed, true, err
}

// settle repairs the high-water mark, and then settles the next number of each series.
func (r *recovery) settle(ctx context.Context, done bool) (err error) {
	store, err := r.open()
	var mark audit.Act
	if errors.Is(err, storage.ErrMark) {
		if mark, err = r.newMark(ctx); err != nil {
			return err
		}
		store, err = r.open()
		done = true
	}
	if errors.Is(err, storage.ErrCorrupt) {
		return exit(exitSource, "%w; name a second copy or a backup with --from", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	owed, err := store.Owed(r.from.Possible)
	if err != nil {
		return err
	}
	if r.mark != "" && r.mark != r.cfg.Mark && mark.What == "" {
		m, err := store.LookAtMark(r.mark)
		if err != nil || owed != nil || m.Ahead != nil || m.Kind != storage.MarkSound && m.Kind != storage.MarkOld {
			return errors.Join(err, exit(exitSource, "--from: %s. If it is this box's, lay it in the place of %s and "+
				"type dtectl recover without it: it names what the store lacks", m.What, r.cfg.Mark))
		}
	}
	if owed == nil {
		if err := r.record(ctx, store, mark); err != nil {
			return err
		}
		if len(r.AcceptLoss) > 0 {
			return r.skip(ctx, store)
		}
		if r.unread {
			return exit(exitSource, "the store is sound, but not every medium could be compared with it: see the table")
		}
		if !done {
			term.Printf("nothing to recover: the store is sound. Of the media that were read it lacks at most what " +
				"was accepted as lost\n")
		}
		return nil
	}
	if _, unsure, err := store.LastBeat(); err == nil && !unsure.IsZero() {
		term.Printf("dted may not have read the whole archive: its next start may find higher numbers there\n")
	}
	losses, err := r.named(owed)
	if err != nil {
		return err
	}
	reason := cmp.Or(mark.Detail, r.Reason, owed.Made, "another medium has more documents")
	if _, err := store.Settle(ctx, r.from.Possible, losses, reason); err != nil {
		return err
	}
	if len(r.AcceptLoss) > 0 {
		reason += "; accepted as lost: " + strings.Join(r.AcceptLoss, ", ")
	}
	if err := r.record(ctx, store, audit.Act{What: "store.reconcile", Target: fmt.Sprint(len(owed.Series), " series"),
		Detail: strings.Join(append([]string{reason}, owed.Why...), "; ")}); err != nil {
		return err
	}
	term.Printf("settled: the next number of each series\n")
	w := term.Columns(term.Out)
	for _, n := range owed.Series {
		if n.Series != storage.Others && n.To > 0 {
			term.Fprintf(w, "  %s\t%d\n", n.Series, n.To+1)
		}
	}
	return w.Flush()
}

// named prints the missing documents, and returns the losses that the operator accepted. The error, with an exit
// status, means that a loss is not named or that a dry run has ended.
func (r *recovery) named(owed *storage.Owed) ([]storage.Loss, error) {
	losses, err := r.losses(owed)
	if err != nil {
		return nil, err
	}
	rest := owed.Accept(losses)
	printOwed(term.Out, owed)
	switch {
	case len(rest) > 0:
		return nil, r.next(owed)
	case r.DryRun:
		return nil, exit(exitToDo, "nothing else would be lost: dtectl recover does it")
	}
	return losses, nil
}

// record writes the store's repairs to the audit trail, and then act, unless act is empty. It does nothing in a dry
// run, or while the store gives no numbers.
func (r *recovery) record(ctx context.Context, store *storage.Store, act audit.Act) error {
	if r.DryRun || store.Restored() != nil || store.Behind() != nil {
		return nil
	}
	box, _, err := r.cfg.MakeBox()
	if err != nil {
		return err
	}
	trail := audit.New(store, r.cfg.Ambiente, box, r.cfg.Now)
	err = trail.RecordRepairs(ctx, adminclient.Who(), "dtectl")
	if act.What == "" || err != nil {
		return err
	}
	act.Who, act.From, act.Outcome, act.Detail = adminclient.Who(), "dtectl", audit.Done, short(act.Detail)
	return trail.Record(ctx, act)
}

// short cuts a reason to the length that the journal and the audit trail accept.
func short(reason string) string { return strings.ToValidUTF8(reason[:min(len(reason), 900)], "") }

// open opens the store. A dry run opens it read-only, and fails unless the mark is sound or ahead.
func (r *recovery) open() (*storage.Store, error) {
	if !r.DryRun {
		return storage.Open(r.o)
	}
	s, err := storage.OpenReadOnly(r.o)
	if err != nil {
		return nil, err
	}
	m, err := s.LookAtMark("")
	if err == nil && m.Kind != storage.MarkSound && m.Kind != storage.MarkAhead {
		err = fmt.Errorf("%w: %s", storage.ErrMark, m.What)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newMark moves the store's mark to the configured path, or checks the store against the second copy and makes a new
// mark. It returns the act for the audit trail. If the check did not prove enough, the act has no What, and Detail
// names what is not proven.
func (r *recovery) newMark(ctx context.Context) (act audit.Act, err error) {
	bar := term.NewGauge(term.Err)
	var refused error
	p, err := storage.NewMark(ctx, storage.MarkAim{From: r.mark, Second: r.second, Dry: r.DryRun,
		Possible: r.from.Possible, Accept: func(p *storage.MarkProof) error {
			bar.Clear()
			printProof(term.Out, p)
			_, refused = r.named(p.Owed)
			return refused
		}}, r.o, bar.Of)
	bar.Clear()
	switch {
	case refused != nil:
		return act, refused
	case errors.Is(err, storage.ErrMarkSound):
		return act, nil // an earlier attempt has already made the mark
	case errors.Is(err, storage.ErrMark) && r.mark == "":
		return act, exit(exitSource, "%w. The mark is right, the store is old: find the disk, or use --from fleet", err)
	case errors.Is(err, storage.ErrMark):
		return act, exit(exitSource, "%w", err)
	case err != nil:
		return act, err
	case p.Moved != "" && r.DryRun:
		return act, exit(exitToDo, "the store's mark is %s: dtectl recover moves it here", p.Moved)
	case p.Aside != "":
		term.Printf("what was in the mark's place was set aside as %s\n", p.Aside)
	}
	why := ""
	if r.Reason != "" {
		why = "; reason: " + r.Reason
	}
	switch {
	case p.Moved != "":
		term.Printf("the mark is now %s; %s is no longer the mark\n", r.cfg.Mark, p.Moved)
		return audit.Act{What: "mark.move", Target: r.cfg.Mark, Detail: "moved from " + p.Moved}, nil
	case p.Owed != nil:
		act.Detail = short("no mark: " + p.Mark.What + "; not proven: " + strings.Join(p.Doubts, "; ") + why)
		return act, nil
	}
	printProof(term.Out, p)
	if r.DryRun {
		return act, exit(exitToDo, "dtectl recover makes a new mark, and every series continues after its last number")
	}
	term.Printf("there is a new mark at %s; every series continues after its last number\n", r.cfg.Mark)
	return audit.Act{What: "mark.new", Target: r.cfg.Mark,
		Detail: "proven by the walk through the store and by the second copy; before: " + p.Mark.What + why}, nil
}

// skip gives up numbers in a sound store, for a branch that changes from another program during the year.
func (r *recovery) skip(ctx context.Context, store *storage.Store) error {
	for _, text := range r.AcceptLoss {
		l, err := storage.ParseLoss(text)
		if err != nil {
			return fmt.Errorf("--accept-loss: %w", err)
		}
		last, err := store.LastNumber(l.Series)
		if err != nil {
			return err
		}
		if len(l.Numbers) != 1 || l.Numbers[0].From != last+1 || strings.Count(l.Series, "/") != 4 {
			return fmt.Errorf(
				"--accept-loss %q: the store lacks nothing, or lacks nothing any more; to leave more numbers out, "+
					"begin at %d, and give the series by its whole name", text, last+1)
		}
		if r.DryRun {
			continue
		}
		if err := store.SkipTo(ctx, l.Series, l.Numbers[0].To, cmp.Or(r.Reason, "accepted as lost")); err != nil {
			return err
		}
		term.Printf("%s continues with number %d\n", l.Series, l.Numbers[0].To+1)
	}
	return r.record(ctx, store, audit.Act{What: "store.reconcile", Target: fmt.Sprint(len(r.AcceptLoss), " series"),
		Detail: cmp.Or(r.Reason, "accepted as lost") + ": " + strings.Join(r.AcceptLoss, "; ")})
}

// next prints the command that names each loss, and returns an error with the exit status exitLoss.
func (r *recovery) next(owed *storage.Owed) error {
	open, own := false, false
	command := []string{"dtectl recover"}
	for _, path := range r.From {
		command[0] += fmt.Sprintf(" --from %q", path)
	}
	for _, n := range owed.Series {
		lost := n.Lost()
		switch {
		case lost == "":
		case ownRecords(n.Series):
			own = true
		default:
			command = append(command, fmt.Sprintf("  --accept-loss %q", brief(n.Series, owed)+strings.TrimPrefix(lost,
				n.Series)))
			open = open || n.Open
			own = own && n.Series != storage.Others
		}
	}
	if own {
		command = append(command, fmt.Sprintf("  --accept-loss %q", storage.Others+": "+storage.NoNumbers))
	}
	term.Printf(lossAdvice)
	if r.from.Lacks != "" {
		term.Printf(incompleteAdvice)
	}
	for i, line := range command {
		if i < len(command)-1 {
			line += ` \`
		}
		term.Printf("  %s\n", line)
	}
	if term.Printf("\n"); open {
		term.Printf(numberAdvice)
	}
	return exit(exitLoss, "nothing is numbered before each loss is named")
}

const (
	lossAdvice = `
A lost document is lost to this box: MH, the archive and the customers' mail may have it. Find the right disk, the
right card or a backup first, and name it with --from, or what the box shipped, with --from fleet. Numbers that no
medium has are given up by name:

`
	incompleteAdvice = `No number is proposed: restore what the chain's store has lost, from the object versions that it
keeps, move away the store that was made here, and repeat this command. If nothing can be restored, give this box new
points of sale. Or find each series' last number, and type it for N:

`
	numberAdvice = `N is the last number of the series: see the tills' last receipts, the sent mails, or MH's portal.
If the store has that number, nothing is lost: type none instead of numbers. A number that is left out does no harm; MH
refuses a number that is used twice. The others are series that the store does not know, such as a series of a new year.
`
)

// ownRecords reports whether a series numbers the box's own records, such as rules, acts and closings. MH knows none of
// these numbers, so their losses are accepted together, as "others".
func ownRecords(series string) bool {
	return series != storage.Others && strings.Count(series, "/") != 4
}

var briefSeries = regexp.MustCompile(`^\w\w/(\w\w)/(\w{4})/(\w{4})/\d{4}$`)

// brief returns a series as a person types it: point of sale and type. If a series of another year has the same short
// name, brief returns the whole name, because the last receipts may be of either year.
func brief(series string, owed *storage.Owed) string {
	word := func(name string) string {
		if m := briefSeries.FindStringSubmatch(name); m != nil {
			return m[2] + m[3] + " " + m[1]
		}
		return name
	}
	for _, n := range owed.Series {
		if n.Series != series && word(n.Series) == word(series) {
			return series
		}
	}
	return word(series)
}

// ownRoom is how many numbers a series of the box's own records leaves out, if nothing bounds its last number.
const ownRoom = 1000

func (r *recovery) losses(owed *storage.Owed) (list []storage.Loss, err error) {
	for _, text := range r.AcceptLoss {
		l, err := storage.ParseLoss(text)
		if err != nil {
			return nil, fmt.Errorf("--accept-loss: %w", err)
		}
		for _, n := range owed.Series {
			if n.Lost() != "" && brief(n.Series, owed) == l.Series {
				l.Series = n.Series
			}
		}
		if l.Series == storage.Others {
			for _, n := range owed.Series {
				if whole := n.Whole(); n.Lost() != "" && ownRecords(n.Series) {
					if n.Open { // a medium that comes back later must not have a higher number
						whole.Numbers = append(whole.Numbers, storage.Span{From: n.Known + 1, To: n.Known + ownRoom})
					}
					list = append(list, whole)
				}
			}
		} else if ownRecords(l.Series) {
			return nil, fmt.Errorf(
				"--accept-loss %q: it names no series with a loss; give the series' whole name", text)
		}
		list = append(list, l)
	}
	return list, nil
}

// printMedia prints each medium's last numbers and unreadable parts. It ignores write errors.
func printMedia(out io.Writer, sources []storage.Source) {
	_ = term.Table(out, "MEDIUM\tREACHES TO\tTAKEN\tWHOLE", sources, func(s storage.Source) []any {
		var reach []string
		for _, series := range slices.Sorted(maps.Keys(s.Last)) {
			reach = append(reach, fmt.Sprintf("%s %d", brief(series, &storage.Owed{}), s.Last[series]))
		}
		if n := len(reach); n > 4 {
			reach = append(reach[:4], fmt.Sprintf("and %d more series", n-4))
		}
		whole := "yes"
		if len(s.Bad) > 0 {
			whole = "cannot be read: " + strings.Join(s.Bad, ", ")
		}
		if len(s.Diverged) > 0 {
			whole += "; has another history of " + strings.Join(s.Diverged, ", ") + ": nothing was taken from it"
		}
		return []any{s.Name, cmp.Or(strings.Join(reach, ", "), "-"), fmt.Sprint(s.Taken, " rows"), whole}
	})
}

// printOwed prints what is missing, by series and number. It ignores write errors.
func printOwed(out io.Writer, o *storage.Owed) {
	if o.Made != "" {
		term.Fprintf(out, "\nThe store is %s, and lacks nothing until %s. It gives no number until it\n"+
			"is settled which numbers were given after that time.\n\n",
			o.Made, adminclient.Local(o.Since))
	}
	for _, why := range o.Why {
		term.Fprintf(out, "%s\n", why)
	}
	if o.MarkLost {
		term.Fprintf(out, "the mark is lost, or is an old one: nothing shows the last numbers\n")
	}
	for _, m := range o.Missing {
		term.Fprintf(out, "missing   %v\n", m)
	}
	begun := slices.DeleteFunc(slices.Clone(o.Series), func(n storage.Next) bool {
		return n.Series == storage.Others || n.Here == 0 && n.Known == 0
	})
	_ = term.Table(out, "SERIES\tIN THE STORE\tKNOWN\tLOST", begun, func(n storage.Next) []any {
		known := fmt.Sprint(n.Known)
		if n.Open {
			known += " or more"
		}
		_, lost, _ := strings.Cut(n.Lost(), ": ")
		return []any{n.Series, n.Here, known, cmp.Or(lost, "-")}
	})
}

func printProof(out io.Writer, p *storage.MarkProof) {
	term.Fprintf(out, "the mark   %s\n", p.Mark.What)
	if p.Series > 0 || p.Documents > 0 {
		term.Fprintf(out, "the store  %d records of %d series, every row and every chain walked: no problem\n",
			p.Documents, p.Series)
	}
	if !p.Last.IsZero() {
		term.Fprintf(out, "           its last activity was on %s. Did the branch sell after that? Then this "+
			"is an old disk: stop here\n",
			adminclient.Local(p.Last))
	}
	if len(p.Doubts) == 0 {
		term.Fprintf(out, "the copy   ends exactly where the store ends: the store lacks no issued document\n")
	}
	for _, doubt := range p.Doubts {
		term.Fprintf(out, "not proven %s\n", doubt)
	}
	term.Fprintf(out, "MH         cannot be asked for the last number of a series; it refuses a number that is used "+
		"twice\n")
}
