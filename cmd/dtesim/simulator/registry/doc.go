// Package registry is what MH has received and sealed: documents, events, invalidations and lots, which number was
// used, what is left of a document that notes adjust. It decides what depends on something received before, and lists
// the breaches that a branch committed on the way ([Registry.Audit]). Everything is in memory.
package registry
