// Package fleet is dtectl fleet, central IT's side of a chain. It publishes the desired state of the branches, widens,
// holds and takes back roll-outs, and reads the branches' reports. There is no server and no database: the chain's
// object store contains everything, and signatures prove who wrote each object or named its digest.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

type Command struct {
	Centre string `default:"/etc/dted/fleet.toml" env:"DTECTL_FLEET" type:"path" help:"Central IT's settings."`

	Keygen  Keygen  `cmd:"" help:"Make the director's key, which signs rules and enrolments for branches."`
	Rekey   Rekey   `cmd:"" help:"Replace a lost or stolen director's key: sign again what it signed."`
	Enrol   Enrol   `cmd:"" help:"Enrol the box of a branch; without arguments, list the boxes that wait."`
	Publish Publish `cmd:"" help:"Begin a roll-out of signed bundles, or of settings, to the branches of a group."`
	Roll    Roll    `cmd:"" help:"Open the next ring of each sound roll-out, hold a harmful one, renew orders."`
	Hold    Hold    `cmd:"" help:"Hold a roll-out: no further branch applies it; the others keep it."`
	Resume  Resume  `cmd:"" help:"Let a roll-out that is held go on."`
	Back    Back    `cmd:"" help:"Go back to what was desired before."`
	Status  Status  `cmd:"" help:"Show every branch, the worst first."`
	Log     Log     `cmd:"" help:"Show what happened in the branches."`
	Serve   Serve   `cmd:"" help:"Serve a page of all branches, /metrics, and the targets of Prometheus."`
	Doctor  Doctor  `cmd:"" help:"Race writers against the store, and name the guarantees that it breaks."`
}

// Chain is a chain's store, with the keys and settings of its centre.
type Chain struct {
	Store    fleetproto.Lister
	Identity fleetproto.Chain // named in every object of the chain
	Director fleetproto.Key
	former   []fleetproto.Key                  // the director's old key, during rekey
	Sign     func() (fleetproto.Signer, error) // opens the director's key
	Cache    string                            // folder of the centre's cache, see cache.go
	Now      func() time.Time
	Who      string // the operator's name, for orders
	Config   *config.Centre
}

// directorID is the name of the director's key in signatures.
const directorID = "director"

// ProvideChain reads the centre's settings for the verb, without a connection.
func (c *Command) ProvideChain() (*Chain, error) {
	settings, err := config.LoadCentre(c.Centre)
	if err != nil {
		return nil, err
	}
	a, err := settings.OpenStore()
	if err != nil {
		return nil, err
	}
	public, err := settings.Director.Known()
	if err != nil {
		return nil, err
	}
	return &Chain{Store: a, Identity: fleetproto.Chain{Name: settings.Chain, Ambiente: settings.Ambiente},
		Director: fleetproto.Key{ID: directorID, Public: public}, Cache: settings.Cache, Now: time.Now,
		Who: adminclient.Who(), Config: settings,
		Sign: func() (fleetproto.Signer, error) {
			private, err := settings.Director.Open()
			return fleetproto.Signer{ID: directorID, Private: private}, err
		}}, nil
}

// keys returns the director's keys whose signatures count.
func (c *Chain) keys() []fleetproto.Key { return append([]fleetproto.Key{c.Director}, c.former...) }

// Groups returns the groups with a version in the store or in this centre's cache.
func (c *Chain) Groups(ctx context.Context) ([]string, error) {
	groups := c.keptGroups() // the store may have lost all objects of a group
	for o, err := range c.objects(ctx, fleetproto.DesiredRoot, fleetproto.DesiredKey) {
		if err != nil {
			return nil, err
		}
		groups = append(groups, o.owner)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// object is an object in a folder of branches or groups.
type object struct {
	archive.Object
	owner  string // the branch or the group
	number int64
}

// name returns what people call an enrolment: BRANCH/EPOCH.
func (o object) name() string { return fmt.Sprintf("%s/%d", o.owner, o.number) }

// objects lists the objects under a prefix whose keys are form(owner, number).
func (c *Chain) objects(ctx context.Context, prefix string, form func(owner string, number int64) string,
) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, surveyWithin)
		defer cancel()
		for e, err := range c.Store.List(ctx, prefix) {
			o := object{Object: e}
			if parts := strings.Split(e.Key, "/"); len(parts) == 5 { // fleet/v1/FOLDER/OWNER/NUMBER.jws
				o.owner = parts[3]
				o.number, _ = fleetproto.NumberOf(e.Key)
			}
			known := o.number > 0 && fleetproto.CheckName(o.owner) == nil && e.Key == form(o.owner, o.number)
			if (err != nil || known) && !yield(o, err) {
				return
			}
		}
	}
}

// foreign reports whether an error means that an object is missing, or is neither the director's nor an enrolled box's.
func foreign(err error) bool {
	return errors.Is(err, fleetproto.ErrSignature) || errors.Is(err, fleetproto.ErrFormat) ||
		errors.Is(err, fleetproto.ErrOther) || errors.Is(err, archive.ErrTooLarge) ||
		errors.Is(err, archive.ErrNotFound)
}

// alone reports whether an error concerns one object only: it is foreign, or the store does not return it.
func alone(err error) bool { return foreign(err) || errors.Is(err, archive.ErrUnread) }

func local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04 -07:00") }

// Fingerprint returns the short form of a box's key that people compare.
func Fingerprint(key string) string {
	public, _ := fleetproto.DecodeKey(key) // the signed object that holds the key was checked
	return fleetproto.Fingerprint(public)
}
