package page

import (
	"dtegate/engine/record"
	"dtegate/plugins"
)

// The pages name the types of today.
var _ = record.Learn(plugins.Earlier()...)
