// Package centre reads a chain's store as its centre sees it: what is desired, whose a branch is, what the boxes report
// and did, and what of that somebody should know. It writes orders; which, the verbs of dtectl fleet say.
package controlplane

import (
	"context"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

// Chain is a chain's store as its centre sees it.
type Chain struct {
	Store    fleetproto.Lister
	Identity fleetproto.Chain // that every object of the chain names
	Director fleetproto.Key
	Sign     func() (fleetproto.Signer, error) // opens the director's key, once; nil: there is none here
	Cache    string                            // folder for what never changes; empty: none
	Now      func() time.Time
	Who      string
	Config   *config.Centre
}

// DirectorID is what signatures name the director's key.
const DirectorID = "director"

// Groups are those for which something was published.
func (c *Chain) Groups(ctx context.Context) (groups []string, err error) {
	const folder = "fleet/v1/desired/"
	for e, err := range c.Store.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.Key, folder), "/")
		if fleetproto.CheckName(name) == nil && !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	for _, name := range c.keptGroups() { // the store may have lost it whole
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	return groups, nil
}

// Local writes a time as people of El Salvador read it.
func Local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04 -07:00") }
