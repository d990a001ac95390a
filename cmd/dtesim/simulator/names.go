package simulator

import (
	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// Types of arguments and results. Each is described where it is declared.
type (
	Issuer  = document.Issuer
	Law     = document.Law
	Chaos   = hostility.Chaos
	Step    = hostility.Step
	Counts  = registry.Counts
	Attempt = registry.Attempt
	Event   = registry.Event
)
