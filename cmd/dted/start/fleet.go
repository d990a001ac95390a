package start

import (
	"errors"
	"io/fs"

	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/wire"
)

// Fleet is what a branch of a chain works with.
type Fleet struct {
	Store     bucket.Bucket
	Directors []wire.Key
}

// openFleet reads the keys of [fleet]. The box's own key is made at the first start; one that is there and cannot be read ends a
// start: by it the centre knows the box.
func openFleet(f *config.Fleet) (*Fleet, error) {
	if f == nil {
		return nil, nil
	}
	made := new(Fleet)
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
