// Package storage keeps the data that must survive a crash: numbered records, their parts, the keys that make a retry
// harmless, the queues of due records, and a journal of all changes, chained by hashes. It knows bytes and integers,
// never a document.
//
// It promises three things. The numbers of a series are 1, 2, 3 … without gap or duplicate after any crash. When Append
// or Advance has returned, its change is on the disk. A reader never sees a change that a crash could still remove.
//
// These files are on the disk:
//
//	Dir        a Pebble store. If it is lost, only a second copy or a backup can replace it.
//	MarkPath   the last number of each series, in a file of its own, best on a second medium. Losing it loses the
//	           proof that Dir is complete; the store then refuses to open. NewMark makes another.
//	SecondCopy every change once more, on a second medium, in a log of segments. Assemble makes a store from it.
//	Dir.new    an attempt at Create or Assemble that did not finish. Worth nothing; the next attempt removes it.
//
// rowkeys.go describes the rows, and locks.go the order of the locks.
//
// # The API
//
// Create makes a store once, and Open opens it; OpenReadOnly and OpenBackup open a store for reading. All methods of a
// Store may be called from many goroutines.
//
// A record is stored in steps, because its content needs its number: Begin locks what it depends on, Appending.Number
// gives its number, Appending.Append stores it. Append does all three if the content needs no number. Advance moves a
// record from one state to another, with new parts, a new due time, counters and an announcement.
//
// Every read except LastNumber returns durable data:
//
//	one record        Get, Part, Parts, Lookup (by idempotency key), Counter
//	many, by id       Records, Page, ByID, PartsOf, LastID
//	of a day          Day
//	what is due       Due
//	what changed      Changes, Announced
//	the series        LastNumber, LastNumbers
//
// An open store takes care of itself:
//
//	the clock         Beat, LastBeat
//	what it can do    Health, and Collect for Prometheus
//	its tables        ReadDaily, LastReading, Fsck
//	backups           Backup, LastBackup
//	its mark          ProveMark, MarkProved
//	its second copy   SecondCopy; for its shipper: CopySegment, CopyChanges, CopyAfter, HasCopied
//
// A lost number is never used again. A store that was rebuilt from other media, and may lack something, gives no number
// until a person has accepted the loss. A store also gives no number while another medium of the box knows more:
//
//	what stops it     Restored, Behind, Held, Hold
//	how to continue   Owed, Settle, SkipTo
//	what is missing   Gaps, Incomplete
//	for the audit     Unrecorded, Recorded
//	for dtectl doctor LookAtMark, LookAtCopy
//
// Close closes it. These functions work on a store that is not open: Check checks it, Assemble rebuilds it from all
// media, and NewMark finds or replaces a lost mark. CheckBackup checks a backup. Relate compares media, and Plan
// returns after which number each series can continue.
package storage
