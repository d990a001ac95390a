package page

import (
	"strconv"

	g "maragu.dev/gomponents"

	"dtegate/engine/books/sample"
)

// sampleSection shows a month's files as a spreadsheet would.
func sampleSection() g.Node {
	return el("section", attr("id", "books"), txt("h2", "What the accountant files"),
		el("p", g.Text("What "), txt("code", "dtectl books"), g.Text(" makes of a small shop's November: the annexes of the VAT return (F-07 v14) as MH's portal takes them, the VAT books, and the F-930. The annexes have no headings; the names below the letters are those of MH's manual. Upload an annex as it is: a spreadsheet that opens and saves it drops the zeros that a NIT begins with, unless every column is imported as text.")),
		el("p", attr("lang", "es"), g.Text("Lo que "), txt("code", "dtectl books"), g.Text(" hace del noviembre de una tienda pequeña: los anexos de la declaración de IVA (F-07 v14) como los recibe el portal de Hacienda, los libros de IVA y el F-930. Los anexos no llevan encabezados; los nombres bajo las letras son los del manual. Suba cada anexo tal cual: una hoja de cálculo que lo abre y lo guarda quita los ceros con que empieza un NIT, salvo que se importen todas las columnas como texto.")),
		g.Map(sample.Files(), sampleFile))
}

func sampleFile(f sample.File) g.Node {
	return el("details", txt("summary", f.Name), el("div", class("sheet"), attr("lang", "es"), el("table",
		txt("caption", f.Title),
		el("thead", el("tr", el("td"), g.Map(f.Columns, func(c sample.Column) g.Node {
			return el("th", attr("scope", "col"), g.Text(c.Letter), g.If(!f.Heading, small(c.Name)))
		}))),
		el("tbody", numbered(f.Rows)...))))
}

// numbered are the rows with their numbers before them.
func numbered(rows [][]string) (list []g.Node) {
	for i, row := range rows {
		list = append(list, el("tr", el("th", attr("scope", "row"), g.Text(strconv.Itoa(i+1))), g.Map(row, func(c string) g.Node { return txt("td", c) })))
	}
	return list
}
