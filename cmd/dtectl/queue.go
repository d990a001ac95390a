package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
)

type queueCommand struct {
	Watch bool `help:"Show it again every second until nothing waits."`
}

// owed is what /status says of what the branch owes MH.
type owed struct {
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
}

// queues are the queues in the order in which a document passes them, with what waits there.
var queues = [][2]string{{"settle", "signed, their outcome not known"}, {"report", "in contingency, in no event yet"}, {"event", "contingency events for MH"},
	{"forward", "reported, the document itself owed"}, {"lot", "lots that MH works on"}, {"invalidate", "invalidations without an answer"}}

// Run asks the running appliance what the branch owes MH, and by when.
func (c *queueCommand) Run(ctx context.Context, top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	for {
		o, err := askOwed(ctx, cfg)
		if err != nil {
			return err
		}
		total := o.print(screen.Out, cfg.Now())
		if !c.Watch || total == 0 && o.Contingency == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func askOwed(ctx context.Context, cfg *config.Config) (*owed, error) {
	var s struct {
		Owed owed `json:"owed"`
	}
	return &s.Owed, askOps(ctx, cfg, http.MethodGet, "/status", nil, &s)
}

// askOps asks this box's appliance.
func askOps(ctx context.Context, cfg *config.Config, method, path string, body any, into any) error {
	g, err := ownGateway(cfg)
	if err != nil {
		return err
	}
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return g.ask(ctx, method, path, nil, payload, into)
}

// print shows what is owed and returns how many records wait.
func (o *owed) print(out io.Writer, now time.Time) (total int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if p := o.Contingency; p != nil {
		word := ""
		if p.Declared {
			word = ", by the operator's word"
		}
		screen.Fprintf(w, "CONTINGENCY\tcause %d since %s%s\t%s\n", p.Cause, local(p.Began), word, p.Motive)
	}
	for _, q := range queues {
		if n := o.Waiting[q[0]]; n > 0 {
			screen.Fprintf(w, "%s\t%d\t%s\n", q[0], n, q[1])
			total += n
		}
	}
	if total == 0 && o.Waiting["correct"] == 0 && o.Refused == "" && o.TechnicalReport.IsZero() {
		screen.Fprintf(w, "nothing waits\n")
	}
	for _, d := range []struct {
		what string
		at   time.Time
	}{{"oldest document", o.Oldest}, {"event due", o.EventDeadline}, {"documents due", o.DocumentDeadline}, {"correction due", o.CorrectionDeadline}} {
		if !d.at.IsZero() {
			screen.Fprintf(w, "%s\t%s\t%s\n", d.what, local(d.at), relative(d.at.Sub(now)))
		}
	}
	if at := o.TechnicalReport; !at.IsZero() {
		screen.Fprintf(w, "technical report\t%s\tthree days of contingency: MH wants a report before the event (dtectl contingency report)\n", local(at))
	}
	if n := o.Waiting["correct"]; n > 0 {
		screen.Fprintf(w, "refused by MH\t%d\tmay be corrected under their own code, the first until %s\n", n, local(o.RefusedDeadline))
	}
	if o.Refused != "" {
		screen.Fprintf(w, "MH refused the last event\t%s\n", o.Refused)
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
