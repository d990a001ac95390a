package ship

import "testing"

// OnSync calls do instead of each sync of a fetched file or folder, until the test ends.
func OnSync(t *testing.T, do func(path string)) {
	was := syncPath
	syncPath = func(path string) error {
		do(path)
		return nil
	}
	t.Cleanup(func() { syncPath = was })
}
