package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// codes returns the codes of a bundle's catalogues, by catalogue.
func codes(part []byte) (map[string][]string, error) {
	var file struct {
		Catalogues map[string]struct {
			Values map[string]json.RawMessage `json:"values"`
		} `json:"catalogues"`
	}
	if err := json.Unmarshal(part, &file); err != nil {
		return nil, fmt.Errorf("reading catalogues: %w", err)
	}
	all := make(map[string][]string)
	for name, c := range file.Catalogues {
		all[name] = slices.Sorted(maps.Keys(c.Values))
	}
	return all, nil
}
