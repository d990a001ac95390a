package engine

import "dtegate/engine/record"

// Names that have moved to package record, for callers that still ask for them here.
type (
	RuleRef      = record.RuleRef
	Invalidation = record.Invalidation
)

// Public states of a document: see package record.
const (
	EstadoProcessed   = record.EstadoProcessed
	EstadoRejected    = record.EstadoRejected
	EstadoContingency = record.EstadoContingency
	EstadoInvalidated = record.EstadoInvalidated
)
