package disk

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/audit"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

type Audit struct {
	Limit int  `default:"100" help:"Number of acts to show, the newest first."`
	JSON  bool `help:"Write one JSON array."`
}

// Run shows the newest acts, the newest first. It asks the running appliance, or else reads the store.
func (c *Audit) Run(ctx context.Context, cfg *config.Config) error {
	acts, err := readActs(ctx, cfg, c.Limit)
	if err != nil {
		return err
	}
	shown := make(map[recordmac.Verdict]int)
	err = term.List(c.JSON, "N\tWHEN\tWHO\tFROM\tWHAT\tOUTCOME\t", acts, func(a audit.Act) []any {
		shown[a.Authenticity]++
		rewritten := ""
		if a.Authenticity == recordmac.Altered {
			rewritten = "REWRITTEN: not as this box wrote it"
		}
		more := slices.DeleteFunc([]string{rewritten, a.Detail, a.Error}, func(s string) bool { return s == "" })
		return []any{a.Number, adminclient.Local(a.At), a.Who, a.From, strings.TrimSpace(a.What + " " + a.Target),
			cmp.Or(a.Outcome, "begun"), strings.Join(more, "; ")}
	})
	if err != nil || c.JSON {
		return err
	}
	term.Printf("authenticity  of these, %s\nintegrity     dtectl fsck walks the chain of all acts\n",
		audit.Sentence(shown))
	return nil
}

func readActs(ctx context.Context, cfg *config.Config, limit int) ([]audit.Act, error) {
	store, err := storage.OpenReadOnly(cfg.Store(slog.New(slog.DiscardHandler)))
	if errors.Is(err, storage.ErrInUse) {
		g, err := adminclient.OwnGateway(cfg)
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
	box, _ := cfg.Box() // without the box's key, no act counts as this box's own
	acts, err := audit.Read(store, box, limit)
	return acts, errors.Join(err, store.Close())
}

// Digests show damage, but anybody who writes a whole store can make them. This file therefore checks who signed each
// rule, and whether this box's key authenticates each act in the audit trail.

// Vouched is the result of Inspect: who signed a store's rules, and whether its acts are authentic.
type Vouched struct {
	Rules *rulestore.Listing
	Acts  *audit.Authenticity
	// bad counts the rules that must not be used and that nobody has taken off, and the problems with acts.
	bad int
}

// Inspect opens every rule of a store that no process writes to, and checks every act.
func Inspect(cfg *config.Config, store *storage.Store) (*Vouched, error) {
	keys, err := cfg.Rules.Pinned()
	if err != nil {
		return nil, err
	}
	box, err := cfg.Box()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without a key, box is nil
		return nil, err
	}
	v := new(Vouched)
	if v.Rules, err = rulestore.Inspect(rulestore.Options{Store: store, Keys: keys, Box: box, Ambiente: cfg.Ambiente,
		Now: cfg.Now}); err != nil {
		return nil, err
	}
	if v.Acts, err = audit.Authenticate(store, box); err != nil {
		return nil, err
	}
	for _, r := range v.Rules.Rules {
		if r.Trouble != nil && r.Off == nil {
			v.bad++
		}
	}
	v.bad += len(v.Acts.Problems)
	return v, nil
}

func (v *Vouched) print(out io.Writer) error {
	w := term.Columns(out)
	for _, r := range v.Rules.Rules {
		term.Fprintf(w, "rule\t%s %s\t%.12s\t%s\n", r.Name, r.Version, r.Digest, r.Sentence())
	}
	for _, n := range v.Rules.Notes {
		term.Fprintf(w, "rule\t%s\n", n)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range v.Acts.Problems {
		term.Fprintf(out, "problem   %s\n", p)
	}
	_, err := term.Fprintf(out, "authenticity of the trail: %s\n", v.Acts)
	return err
}

// printVouched prints who wrote the rules and acts of a store. bad is the number of rules and acts that nobody vouches
// for. They are not an error, because such rules compute nothing.
func printVouched(out io.Writer, cfg *config.Config, open func(storage.Options) (*storage.Store, error)) (bad int,
	err error) {
	store, err := open(cfg.Store(slog.New(slog.DiscardHandler)))
	if err != nil {
		return 0, err
	}
	v, err := Inspect(cfg, store)
	if err == nil {
		bad, err = v.bad, v.print(out)
	}
	return bad, errors.Join(err, store.Close())
}
