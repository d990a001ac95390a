// Package storage keeps what must survive a crash: numbered records, their parts, the keys that make a retry harmless,
// the queues of what is due, and a journal of all changes, chained by hashes. It knows bytes and integers, never a
// document.
//
// It promises three things. The numbers of a series are 1, 2, 3 … without gap or duplicate after any crash. When Append
// or Advance has returned, its change is on the disk. Nobody can read a change that a crash could still remove.
//
// These files are on the disk:
//
//	Dir        a Pebble store. Losing it is losing the documents.
//	MarkPath   the last number of each series, in a file of its own, best on a second medium. Losing it loses the
//	           proof that Dir is complete; the store then refuses to open. NewMark makes another.
//	Dir.new    an attempt at Create that did not finish. Worth nothing; the next Create removes it.
//
// The rows are described in keys.go, their order of locks in locks.go.
package storage
