package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Status is what the running appliance says of itself under /status, as far as dtectl reads it. Its answer to a
// declared contingency has the same form.
type Status struct {
	Ambiente      string              `json:"ambiente"`
	Owed          Owed                `json:"owed"`
	Authorisation *Authorisation      `json:"authorisation"` // nil in production
	Read          *storage.Reading    `json:"store_read"`
	Copy          *storage.SecondCopy `json:"second_copy"` // nil: there is none
	Backup        *time.Time          `json:"backup"`
	Shipped       *fleetproto.Shipped `json:"shipped"`     // nil: nothing is shipped
	Proved        *time.Time          `json:"mark_proved"` // when the mark was last found as it was written
	// Refused is MH's refusal of the user or the password, and what to type; nil when MH takes them.
	Refused *struct{ Why, Do string } `json:"credentials_refused"`
}

// Authorisation is how far the tests are that MH wants of an issuer.
type Authorisation struct {
	Since   string  `json:"since"` // yyyy-mm-dd: what is older does not count
	Kinds   []Tests `json:"kinds"`
	Partial bool    `json:"partial"` // the branch still adds its documents up
}

// Tests is how far one kind of them is, by the branch's own records.
type Tests struct {
	Kind    string `json:"kind"`
	Wanted  int    `json:"wanted"`
	Sealed  int    `json:"sealed"`
	Waiting int    `json:"waiting"`
	Refused int    `json:"refused"`
}

// Missing is how many are still to be sent.
func (t Tests) Missing() int { return max(0, t.Wanted-t.Sealed-t.Waiting) }

// AskStatus asks this box's appliance.
func AskStatus(ctx context.Context, cfg *config.Config) (*Status, error) {
	s := new(Status)
	return s, AskOwn(ctx, cfg, http.MethodGet, "/status", nil, s)
}

// Owed is what the branch owes MH.
type Owed struct {
	Contingency *struct {
		Began    time.Time `json:"began"`
		Cause    int       `json:"cause"`
		Motive   string    `json:"motive"`
		Declared bool      `json:"declared"`
	} `json:"contingency"`
	Waiting            map[string]int `json:"waiting"`
	Oldest             time.Time      `json:"oldest"`
	EventDeadline      time.Time      `json:"event_deadline"`
	DocumentDeadline   time.Time      `json:"document_deadline"`
	CorrectionDeadline time.Time      `json:"correction_deadline"`
	RefusedDeadline    time.Time      `json:"refused_deadline"`
	TechnicalReport    time.Time      `json:"technical_report"`
	Refused            string         `json:"refused"`
	Lost               int            `json:"lost"`
	LostRecords        []record.Lost  `json:"lost_records"`
}

// queues are the queues in the order in which a document passes them, with what waits there.
var queues = [][2]string{{"settle", "signed, their outcome not known"}, {"report", "in contingency, in no event yet"},
	{"event", "contingency events for MH"},
	{"forward", "reported, the document itself owed"}, {"lot", "lots that MH works on"}, {"invalidate",
		"invalidations without an answer"}}

// Print shows what is owed and returns how many records wait.
func (o *Owed) Print(out io.Writer, now time.Time) (total int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if p := o.Contingency; p != nil {
		word := ""
		if p.Declared {
			word = ", by the operator's word"
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
		term.Fprintf(w, "lost\t%d\tthe store lacks a piece of them, and no deadline here counts them\n", o.Lost)
		for _, l := range o.LostRecords {
			term.Fprintf(w, "  %s\t%s\t%s\n", l.Queue, l.Name(), l.Why)
		}
	}
	if o.Refused != "" {
		term.Fprintf(w, "MH refused the last event\t%s\n", o.Refused)
	}
	_ = w.Flush() // to a terminal
	return total
}

func relative(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " ago"
	}
	return "in " + d.Round(time.Second).String()
}

// PublicStates are the API's names of the stored states (engine/lifecycle.go), which are never renumbered. 1 is signed
// and not settled, which has no name; from 16 on they are not documents.
var PublicStates = [...]string{1: "", 2: "PROCESSED", 3: "REJECTED", 4: "CONTINGENCIA", 5: "INVALIDATED",
	6: "CONTINGENCIA"}

// SettleDeliveries has the appliance do something with what was given up of documents; archive reaches what it has
// archived too.
func SettleDeliveries(ctx context.Context, f Flags, top *Options, do string, codes []string, archive bool) error {
	g, err := f.Open(top)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"codes": codes, "archive": archive})
	if err != nil {
		return err
	}
	var done struct {
		Retried   int `json:"retried"`
		Forgotten int `json:"forgotten"`
	}
	if err := g.Ask(ctx, http.MethodPost, "/admin/delivery/"+do, nil, body, &done); err != nil {
		return err
	}
	switch {
	case done.Retried+done.Forgotten == 0:
		return errors.New("nothing was given up of these documents: nothing was done")
	case do == "retry":
		term.Printf("%d set due again\n", done.Retried)
	default:
		term.Printf("%d forgotten\n", done.Forgotten)
	}
	return nil
}

// Local writes a time as people of El Salvador read it, with the zone, whatever the box's own zone is:
// 2026-12-01 08:00:00 -06:00.
func Local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04:05 -07:00") }
