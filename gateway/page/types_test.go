package page

import (
	"slices"

	"dtegate/engine/record"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// The pages name the types of today.
var _ = record.Learn(slices.DeleteFunc(plugins.Types(), func(t *bundle.Type) bool {
	return !slices.Contains(plugins.Issued(), t.Document)
})...)
