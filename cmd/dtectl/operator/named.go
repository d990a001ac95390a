package operator

import (
	"os"
	"path/filepath"
)

// handed are the files that the operator named, read before root became the account of the branch; nil when root did not.
var handed map[string][]byte

// HandOver reads files that the operator named, while they can be read: ReadNamed returns them to the account that root becomes.
func HandOver(files []string) {
	handed = make(map[string][]byte)
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			handed[file] = data
		}
	}
}

// HandedOver returns whether root became another account.
func HandedOver() bool { return handed != nil }

// ReadNamed reads a file that the operator named on the command line.
func ReadNamed(path string) ([]byte, error) {
	if data, ok := handed[path]; ok {
		return data, nil
	}
	return os.ReadFile(path)
}

// ExistingAbove is the nearest folder above a path, the path included, that is there.
func ExistingAbove(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}
