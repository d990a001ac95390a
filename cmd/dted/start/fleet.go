package start

import (
	"errors"
	"io/fs"

	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/fleetproto"
)

// Fleet is what a branch of a chain works with.
type Fleet struct {
	Store     bucket.Bucket
	Chain     fleetproto.Chain
	Directors []fleetproto.Key
}

// openFleet reads the keys of [fleet]. The box's own key is made at the first start; one that is there and cannot be read ends a
// start: by it the centre knows the box.
func openFleet(c *config.Config) (*Fleet, error) {
	f := c.Fleet
	if f == nil {
		return nil, nil
	}
	made := &Fleet{Chain: c.Chain()}
	var faults []error
	var err error
	made.Store, err = f.Open()
	faults = append(faults, err)
	made.Directors, err = f.Directors()
	faults = append(faults, err)
	if _, err = f.Box(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		faults = append(faults, err)
	}
	return made, errors.Join(faults...)
}
