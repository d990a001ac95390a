// Package fleet is central IT's side of a chain: dtectl fleet. It publishes what branches shall run, widens, holds and takes back,
// and reads what they report, all through the chain's object store. There is no server of ours and no database: whatever is
// known is in the store, signed by who said it.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/wire"
)

// Command is dtectl fleet, one verb a file.
type Command struct {
	Centre string `default:"/etc/dted/fleet.toml" env:"DTECTL_FLEET" type:"path" help:"Central IT's settings: the chain's store, the director's key."`
	// Who is the operator, as orders name him.
	Who func() string `kong:"-"`

	Keygen  Keygen  `cmd:"" help:"Make the director's key, sealed: it signs which rules branches shall run, and whose a branch is."`
	Enrol   Enrol   `cmd:"" help:"Say which box is a branch's; without arguments, list the boxes that wait."`
	Publish Publish `cmd:"" help:"Begin a roll-out of signed bundles, or of settings, to the branches of a group."`
	Roll    Roll    `cmd:"" help:"Open the next ring of each roll-out whose criteria hold; hold one that harms; sign again what would expire."`
	Hold    Hold    `cmd:"" help:"No further branch takes the roll-out; those that took it keep it."`
	Resume  Resume  `cmd:"" help:"Let a roll-out that is held go on."`
	Back    Back    `cmd:"" help:"Go back to what was desired before."`
	Status  Status  `cmd:"" help:"Show every branch, the worst first."`
	Log     Log     `cmd:"" help:"Show what happened in the branches."`
	Serve   Serve   `cmd:"" help:"Serve a page of all branches, /metrics, and the targets of Prometheus."`
	Doctor  Doctor  `cmd:"" help:"Race writers against the store, and name what it does not keep."`
}

// chain is a chain's store as its centre sees it.
type chain struct {
	store    wire.Lister
	director wire.Key
	sign     func() (wire.Signer, error) // opens the director's key, once; nil: there is none here
	cache    string                      // folder for what never changes; empty: none
	now      func() time.Time
	who      string
	config   *config.Centre
}

// open reads the settings and connects to nothing.
func (c *Command) open() (*chain, error) {
	centre, err := config.LoadCentre(c.Centre)
	if err != nil {
		return nil, err
	}
	a, err := centre.OpenStore()
	if err != nil {
		return nil, err
	}
	public, err := centre.Director.Known()
	if err != nil {
		return nil, err
	}
	who := "central-it"
	if c.Who != nil {
		who = c.Who()
	}
	return &chain{store: bucket.New(a), director: wire.Key{ID: directorID, Public: public}, cache: centre.Cache, now: time.Now, who: who, config: centre,
		sign: func() (wire.Signer, error) {
			private, err := centre.Director.Open()
			return wire.Signer{ID: directorID, Private: private}, err
		}}, nil
}

// directorID is what signatures name the director's key.
const directorID = "director"

// group is the one that is meant: the only one where none is named.
func (c *chain) group(ctx context.Context, name string) (string, error) {
	if name != "" {
		return name, wire.CheckName(name)
	}
	groups, err := c.groups(ctx)
	switch {
	case err != nil:
		return "", err
	case len(groups) == 0:
		return "", errors.New("nothing was published yet: dtectl fleet publish --group NAME FILE begins")
	case len(groups) > 1:
		return "", fmt.Errorf("--group: is one of %s", strings.Join(groups, ", "))
	}
	return groups[0], nil
}

// groups are those for which something was published.
func (c *chain) groups(ctx context.Context) (groups []string, err error) {
	const folder = "fleet/v1/desired/"
	for e, err := range c.store.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.Key, folder), "/")
		if wire.CheckName(name) == nil && !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	return groups, nil
}

// local writes a time as people of El Salvador read it.
func local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04 -07:00") }
