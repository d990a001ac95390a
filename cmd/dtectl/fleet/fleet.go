// Package fleet is central IT's side of a chain: dtectl fleet. It publishes what branches shall run, widens, holds and
// takes back, and reads what they report, all through the chain's object store. There is no server of ours and no
// database: whatever is known is in the store, signed by who said it.
package fleet

import (
	"time"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/fleetproto"
)

// Command is dtectl fleet, one verb a file.
type Command struct {
	Centre string `default:"/etc/dted/fleet.toml" env:"DTECTL_FLEET" type:"path" help:"Central IT's settings: the chain's store, the director's key."`
	// Who is the operator, as orders name him.
	Who func() string `kong:"-"`

	Keygen  Keygen  `cmd:"" help:"Make the director's key, sealed: it signs which rules branches shall run, and whose a branch is."`
	Rekey   Rekey   `cmd:"" help:"Move the chain from a director's key that is lost or stolen to another: sign again what the old one signed."`
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

// open reads the settings and connects to nothing.
func (c *Command) open() (*controlplane.Chain, error) {
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
	who := "central-it"
	if c.Who != nil {
		who = c.Who()
	}
	return &controlplane.Chain{Store: bucket.New(a), Identity: settings.Identity(),
		Director: fleetproto.Key{ID: controlplane.DirectorID, Public: public}, Cache: settings.Cache, Now: time.Now,
		Who: who, Config: settings,
		Sign: func() (fleetproto.Signer, error) {
			private, err := settings.Director.Open()
			return fleetproto.Signer{ID: controlplane.DirectorID, Private: private}, err
		}}, nil
}
