// Package sample is a small shop's month as the books make it, for the reference to show. It knows neither the books
// nor the reference: TestSample of engine/books writes it and compares it.
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

// Files are the month's files in the manual's order. They are part of the program: tests find their faults.
func Files() (list []File) {
	if err := json.Unmarshal(made, &list); err != nil {
		panic(err)
	}
	return list
}
