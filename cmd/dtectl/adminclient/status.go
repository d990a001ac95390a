package adminclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/contingency"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/storage"
)

// Status is the part of the answers to /status and /admin/contingency that dtectl uses.
type Status struct {
	Ambiente      string              `json:"ambiente"`
	Owed          contingency.Backlog `json:"owed"`
	Authorisation *documents.Progress `json:"authorisation"` // nil in production
	Read          *storage.Reading    `json:"store_read"`
	Copy          *storage.SecondCopy `json:"second_copy"` // nil: no second copy
	Backup        *time.Time          `json:"backup"`
	Shipped       *fleetproto.Shipped `json:"shipped"`     // nil: nothing is shipped
	Proved        *time.Time          `json:"mark_proved"` // when the high-water mark was last read without a fault
	// Refused is MH's refusal of the user or the password, and what to type; nil when MH accepts both.
	Refused *struct{ Why, Do string } `json:"credentials_refused"`
}

func AskStatus(ctx context.Context, cfg *config.Config) (*Status, error) {
	s := new(Status)
	return s, AskOwn(ctx, cfg, http.MethodGet, "/status", nil, s)
}

// queues lists the queues in the order in which a document passes them, each with a text about the records in it.
var queues = [][2]string{{"settle", "signed, their outcome not known"}, {"report", "in contingency, in no event yet"},
	{"event", "contingency events for MH"}, {"forward", "reported, the document itself owed"},
	{"lot", "lots that MH works on"}, {"invalidate", "invalidations without an answer"}}

// PrintOwed prints what the branch owes MH, and returns how many records wait, except those that MH refused.
func PrintOwed(out io.Writer, o *contingency.Backlog, now time.Time) (total int) {
	w := term.Columns(out)
	if p := o.Contingency; p != nil {
		word := ""
		if p.Declared {
			word = ", declared by operator"
		}
		term.Fprintf(w, "CONTINGENCY\tcause %d since %s%s\t%s\n", p.Cause, Local(p.Began), word, p.Motive)
	}
	for _, q := range queues {
		if n := o.Waiting[q[0]]; n > 0 {
			term.Fprintf(w, "%s\t%d\t%s\n", q[0], n, q[1])
			total += n
		}
	}
	if total == 0 && o.Waiting["correct"] == 0 && o.Refused == "" && o.TechnicalReport.IsZero() && o.Lost == 0 {
		term.Fprintf(w, "nothing waits\n")
	}
	for _, d := range []struct {
		what string
		at   time.Time
	}{{"oldest document", o.Oldest}, {"event due", o.EventDeadline}, {"documents due", o.DocumentDeadline},
		{"correction due", o.CorrectionDeadline}} {
		if !d.at.IsZero() {
			term.Fprintf(w, "%s\t%s\t%s\n", d.what, Local(d.at), relative(d.at.Sub(now)))
		}
	}
	if at := o.TechnicalReport; !at.IsZero() {
		term.Fprintf(w, "technical report\t%s\tthree days of contingency: MH wants a report before the event (dtectl "+
			"contingency report)\n", Local(at))
	}
	if n := o.Waiting["correct"]; n > 0 {
		term.Fprintf(w, "refused by MH\t%d\tmay be corrected under their own code, the first until %s\n", n,
			Local(o.RefusedDeadline))
	}
	if o.Lost > 0 {
		term.Fprintf(w, "lost\t%d\tset aside, each for the reason shown; no deadline counts them\n", o.Lost)
		for _, l := range o.LostRecords {
			term.Fprintf(w, "  %s\t%s\t%s\n", l.Queue, l.Name(), l.Why)
		}
	}
	if o.Refused != "" {
		term.Fprintf(w, "MH refused the last event\t%s\n", o.Refused)
	}
	_ = w.Flush() // an error of the terminal is ignored
	return total
}

func relative(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " ago"
	}
	return "in " + d.Round(time.Second).String()
}

// SettleDeliveries makes the appliance retry or forget the given-up deliveries of documents; do is "retry" or "forget".
// With archive, a retry includes files that the archive has lost.
func (g *Gateway) SettleDeliveries(ctx context.Context, do string, codes []string, archive bool) error {
	var done struct{ Retried, Forgotten int }
	body := map[string]any{"codes": codes, "archive": archive}
	if err := g.Ask(ctx, http.MethodPost, "/admin/delivery/"+do, nil, body, &done); err != nil {
		return err
	}
	switch {
	case done.Retried+done.Forgotten == 0:
		return errors.New("no delivery of these documents was given up: nothing was done")
	case do == "retry":
		term.Printf("%d will be tried again\n", done.Retried)
	default:
		term.Printf("%d forgotten\n", done.Forgotten)
	}
	return nil
}

// Local writes a time in El Salvador's time zone, whatever the box's zone is: 2026-12-01 08:00:00 -06:00.
func Local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04:05 -07:00") }
