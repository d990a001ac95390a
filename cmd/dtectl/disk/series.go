package disk

import (
	"fmt"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
)

// DocumentTypes are those of CAT-002 that a branch issues, and 18, the return.
var DocumentTypes = []string{"01", "03", "05", "06", "07", "14", "18"}

// possibleSeries are the series that the branch can have issued documents from between two times.
func possibleSeries(cfg *config.Config, from, to time.Time) []string {
	var list []string
	for year := dte.Year(from); year <= dte.Year(to); year++ {
		for _, p := range cfg.Points {
			for _, document := range DocumentTypes {
				list = append(list, fmt.Sprintf("%s/%s/%s/%s/%d", cfg.Ambiente, document, p.Establishment, p.PointOfSale, year))
			}
		}
	}
	return list
}
