package gateway

import (
	"dtegate/engine/record"
	"dtegate/plugins"
)

// The tills ask for the types of today.
var _ = record.Learn(plugins.Earlier()...)
