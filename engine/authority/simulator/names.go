package simulator

import (
	"dtegate/engine/authority/simulator/document"
	"dtegate/engine/authority/simulator/hostility"
	"dtegate/engine/authority/simulator/registry"
)

// What callers hand in or get back. Each is described where it is declared.
type (
	Issuer  = document.Issuer
	Law     = document.Law
	Chaos   = hostility.Chaos
	Step    = hostility.Step
	Counts  = registry.Counts
	Attempt = registry.Attempt
	Event   = registry.Event
)
