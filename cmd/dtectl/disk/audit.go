package disk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/audit"
	"dtegate/storage"
)

// Audit is dtectl audit.
type Audit struct {
	Limit int  `default:"100" help:"How many of the newest."`
	JSON  bool `help:"Write one JSON object a line."`
}

// Run shows the newest acts, the newest first. It asks the appliance if the appliance runs, and otherwise reads the
// store.
func (c *Audit) Run(ctx context.Context, top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	acts, err := readActs(ctx, cfg, top, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(term.Data())
		for _, a := range acts {
			if err := e.Encode(a); err != nil {
				return err
			}
		}
		return nil
	}
	if err := printActs(term.Out, acts); err != nil {
		return err
	}
	shown := make(map[string]int)
	for _, a := range acts {
		shown[a.Authenticity]++
	}
	term.Printf("authenticity  of these, %s\nintegrity     dtectl fsck walks the chain of all acts\n",
		audit.Sentence(shown))
	return nil
}

func readActs(ctx context.Context, cfg *config.Config, top *adminclient.Options, limit int) ([]audit.Act, error) {
	store, err := storage.OpenReadOnly(cfg.Store(slog.New(slog.DiscardHandler)))
	if errors.Is(err, storage.ErrInUse) {
		g, err := adminclient.Flags{}.Open(top)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Acts []audit.Act `json:"acts"`
		}
		return answer.Acts, g.Ask(ctx, http.MethodGet, "/admin/audit", url.Values{"limit": {strconv.Itoa(limit)}}, nil,
			&answer)
	}
	if err != nil {
		return nil, err
	}
	box, _ := cfg.Box() // without the key no act is known to be this box's, and the answer says so
	acts, err := audit.Read(store, box, limit)
	return acts, errors.Join(err, store.Close())
}

func printActs(out io.Writer, acts []audit.Act) error {
	w := term.Columns(out)
	term.Fprintf(w, "N\tWHEN\tWHO\tFROM\tWHAT\tOUTCOME\t\n")
	for _, a := range acts {
		if a.Outcome == "" {
			a.Outcome = "begun"
		}
		var more []string
		if a.Authenticity == audit.Altered {
			more = append(more, "REWRITTEN: not as this box wrote it")
		}
		for _, s := range []string{a.Detail, a.Error} {
			if s != "" {
				more = append(more, s)
			}
		}
		term.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Number, adminclient.Local(a.At), a.Who, a.From,
			strings.TrimSpace(a.What+" "+a.Target), a.Outcome, strings.Join(more, "; "))
	}
	return w.Flush()
}
