package gateway

import (
	"dtegate/engine/record"
	"dtegate/plugins"
)

// The tills ask for all shipped types.
var _ = record.Learn(plugins.Types()...)

// contractText is the contract of a branch that issues them.
var contractText, contractErr = OpenAPI(plugins.Types())
