package bundles

import (
	"fmt"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/rules/bundle"
)

// bundleFile is a bundle on its way to branches, which are the ones to verify it.
type bundleFile struct {
	path, digest string
	data         []byte
	manifest     bundle.Manifest
}

func (f *bundleFile) String() string { return f.manifest.Name + " " + f.manifest.Version }

func readBundles(paths []string) (list []*bundleFile, err error) {
	for _, path := range paths {
		f := &bundleFile{path: path}
		if f.data, err = adminclient.ReadNamed(path); err != nil {
			return nil, fmt.Errorf("reading rule bundle: %w", err)
		}
		b, err := bundle.Inspect(f.data) // as strictly as a branch does: what a branch would refuse is not sent
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f.digest, f.manifest = b.Digest, b.Manifest
		list = append(list, f)
	}
	return list, nil
}
