// Package document checks one document or event by itself: its signature, its text, the schema of its type and
// generation, catalogues, arithmetic, and the law of its day. It also checks what a document must repeat from another
// document that it names. It remembers nothing.
//
// [Reader] makes these checks in MH's order. schema.go has one row for each type and generation: its schema file and
// its checks. Refusals are in refusal.go. The sources are cited as in package simulator.
package document
