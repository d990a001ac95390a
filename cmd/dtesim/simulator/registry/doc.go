// Package registry keeps what MH has received and sealed: documents, events, invalidations and lots, the used numbers,
// and what is left of a document after its notes. It makes the decisions that depend on earlier receptions, and lists
// the breaches that a branch committed ([Registry.Audit]). Everything is in memory.
package registry
