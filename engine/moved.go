package engine

import (
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

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

// Error and its codes: see package refusal.
type Error = refusal.Error

// Codes of Error: see package refusal.
const (
	CodeValidation     = refusal.CodeValidation
	CodeKeyConflict    = refusal.CodeKeyConflict
	CodeNotFound       = refusal.CodeNotFound
	CodeNoContingency  = refusal.CodeNoContingency
	CodeNotProcessed   = refusal.CodeNotProcessed
	CodeOriginType     = refusal.CodeOriginType
	CodeOriginStatus   = refusal.CodeOriginStatus
	CodeItemNotFound   = refusal.CodeItemNotFound
	CodeOverReturn     = refusal.CodeOverReturn
	CodeNotInvalidable = refusal.CodeNotInvalidable
	CodeNotCorrectable = refusal.CodeNotCorrectable
	CodeNoRecipient    = refusal.CodeNoRecipient
	CodePermission     = refusal.CodePermission
	CodeNotYet         = refusal.CodeNotYet
	CodeUnavailable    = refusal.CodeUnavailable
	CodeStorageFull    = refusal.CodeStorageFull
	CodeBusy           = refusal.CodeBusy
	CodeClockWrong     = refusal.CodeClockWrong
	CodeStoreBehind    = refusal.CodeStoreBehind
	CodeInternal       = refusal.CodeInternal
)
