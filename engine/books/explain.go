package books

import "strings"

// Explanation lists the places of a document in the books of a month.
type Explanation struct {
	Month  string
	Places []Place
	Motive string // why the document is in no file; "" if it is in a file
	Notes  []string
}

// Place is a document's row in a file, or the amounts that the document adds to a shared row.
type Place struct {
	File  string
	Why   string
	Cells []Cell
}

// Cell is a value in a column, or the amount that a document adds to the column.
type Cell struct {
	Column
	Value string
}

// Explain returns the cells of a document in the books of a month. The same code makes the files.
func Explain(doc Document, month string, s Settings) (*Explanation, error) {
	d, err := read(doc)
	if err != nil {
		return nil, err
	}
	b := &Book{settings: s.complete()}
	p := place(d, month, b.settings).limit()
	e := &Explanation{Month: month, Motive: p.motive, Notes: p.notes}
	for _, r := range p.rows {
		place := Place{File: r.file.Name, Why: r.file.why}
		for i, c := range r.file.Columns {
			if r.cells[i] != "" {
				place.Cells = append(place.Cells, Cell{c, r.cells[i]})
			}
		}
		e.Places = append(e.Places, place)
	}
	if p.daily != nil {
		e.Places = append(e.Places, p.daily.explained(annex02, p.daily.annexCells(b.dayCode(d.Code),
			b.dayCode(d.Code))))
	}
	if p.sold != nil {
		cells := consumerCells(p.sold.date, d.establishment, d.bookNumber(), d.bookNumber(), p.sold, 1)
		e.Places = append(e.Places, p.sold.explained(consumers, cells))
	}
	return e, nil
}

// explained returns the amounts that a share adds to its row, without a shared row's first and last code.
func (s *share) explained(l *layout, cells []string) Place {
	p := Place{File: l.Name, Why: "fila propia: " + s.adjust}
	shared := s.adjust == ""
	if shared {
		p.Why = "fila del " + day(s.date) + ", con los demás documentos de ese día; esto es lo que suma"
	}
	for i, c := range l.Columns {
		if cells[i] == "" || shared && (strings.Contains(c.Name, "(del)") || strings.Contains(c.Name, "(al)") ||
			c.Name == "Del No." || c.Name == "Al No.") {
			continue
		}
		p.Cells = append(p.Cells, Cell{c, cells[i]})
	}
	return p
}
