// Package document checks what can be checked of one document or event by itself: its signature, its text, the schema
// of its type and generation, catalogues, arithmetic, the law of its day; and what a document must repeat of another
// that it names. It remembers nothing.
//
// [Reader] does all of it in MH's order. schema.go has one row for each type and generation: its schema file and its
// checks. Refusals are in refusal.go. The sources are cited as in package simulator.
package document
