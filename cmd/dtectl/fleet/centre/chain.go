// Package centre reads a chain's store as its centre sees it: what is desired, whose a branch is, what the boxes report and did, and
// what of that somebody should know. It writes orders; which, the verbs of dtectl fleet say.
package centre

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/wire"
)

// Chain is a chain's store as its centre sees it.
type Chain struct {
	Store    wire.Lister
	Director wire.Key
	Sign     func() (wire.Signer, error) // opens the director's key, once; nil: there is none here
	Cache    string                      // folder for what never changes; empty: none
	Now      func() time.Time
	Who      string
	Config   *config.Centre
}

// DirectorID is what signatures name the director's key.
const DirectorID = "director"

// Group is the one that is meant: the only one where none is named.
func (c *Chain) Group(ctx context.Context, name string) (string, error) {
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
func (c *Chain) groups(ctx context.Context) (groups []string, err error) {
	const folder = "fleet/v1/desired/"
	for e, err := range c.Store.List(ctx, folder) {
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

// Local writes a time as people of El Salvador read it.
func Local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04 -07:00") }
