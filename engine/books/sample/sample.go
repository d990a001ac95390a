// Package sample has a small shop's books of one month, an example for the reference. TestSample of engine/books makes
// sample.json and compares it with the books.
package sample

import (
	_ "embed"
	"encoding/json"
)

// File is a file of the month.
type File struct {
	Name, Title string
	Heading     bool // the file is for people: its rows begin with a heading
	Columns     []Column
	Rows        [][]string
}

// Column is a column of a file, in the manual's words.
type Column struct{ Letter, Name string }

//go:embed sample.json
var made []byte

// Files returns the month's files in the manual's order. It panics if sample.json has a fault.
func Files() (list []File) {
	if err := json.Unmarshal(made, &list); err != nil {
		panic(err)
	}
	return list
}
