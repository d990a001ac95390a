package disk

import (
	"fmt"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
)

// possibleSeries are the series that the branch can have issued documents from between two times.
func possibleSeries(cfg *config.Config, from, to time.Time) []string {
	var list []string
	for year := dte.Year(from); year <= dte.Year(to); year++ {
		for _, p := range cfg.Points {
			for _, document := range cfg.Types.Issue {
				list = append(list, fmt.Sprintf("%s/%s/%s/%s/%d", cfg.Ambiente, document, p.Establishment, p.PointOfSale, year))
			}
		}
	}
	return list
}
