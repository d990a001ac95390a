package books

// Column is a column of a file.
type Column struct {
	Letter string // as spreadsheets name it
	Name   string // in the manual's words
	Page   int    // of the manual; 0: the file is not one of its annexes
}

// layout is a file of rows.
type layout struct {
	Name    string // at most 25 characters (p. 2)
	Columns []Column
	header  bool // for people: with headings; the annexes have none (p. 1)
	sums    []int
	// notesAt is the column with the type of the document, in an annex that has credit notes (05) as positive amounts;
	// 0: none.
	notesAt int
}

func annex(name string, sums string, columns ...Column) *layout {
	l := &layout{Name: name, Columns: columns}
	for i := range l.Columns {
		l.Columns[i].Letter = string(rune('A' + i))
		for _, s := range sums {
			if rune('A'+i) == s {
				l.sums = append(l.sums, i)
			}
		}
	}
	return l
}

// withNotes marks an annex that has credit notes as positive amounts, beside what they take something off.
func (l *layout) withNotes(column int) *layout {
	l.notesAt = column
	return l
}

func book(name string, sums string, names ...string) *layout {
	columns := make([]Column, len(names))
	for i, n := range names {
		columns[i].Name = n
	}
	l := annex(name, sums, columns...)
	l.header = true
	return l
}

// documentsColumn is how many documents a row of the book of consumers holds.
const documentsColumn = "Documentos"

// The files of rows. Their columns are those of the manual's tables, in their order.
var (
	annex01 = annex("anexo01.csv", "JKLMNOP", Column{Name: "Fecha de emisión del documento", Page: 1},
		Column{Name: "Clase de documento", Page: 1},
		Column{Name: "Tipo de documento", Page: 2}, Column{Name: "Número de resolución", Page: 2},
		Column{Name: "Número de serie de documento", Page: 2},
		Column{Name: "Número de documento", Page: 2}, Column{Name: "Número de control interno", Page: 2},
		Column{Name: "NIT o NRC del cliente", Page: 2},
		Column{Name: "Nombre, razón social o denominación", Page: 2}, Column{Name: "Ventas exentas", Page: 2},
		Column{Name: "Ventas no sujetas", Page: 2},
		Column{Name: "Ventas gravadas locales", Page: 3}, Column{Name: "Débito fiscal", Page: 3},
		Column{Name: "Ventas a cuenta de terceros no domiciliados", Page: 3},
		Column{Name: "Débito fiscal por venta a cuenta de terceros", Page: 3}, Column{Name: "Total ventas", Page: 3},
		Column{Name: "DUI del cliente", Page: 3},
		Column{Name: "Tipo de operación (Renta)", Page: 3}, Column{Name: "Tipo de ingreso (Renta)", Page: 4},
		Column{Name: "Número de anexo", Page: 4}).withNotes(2)
	annex02 = annex("anexo02.csv", "KLMNOPQRST", Column{Name: "Fecha de emisión", Page: 7},
		Column{Name: "Clase de documento", Page: 7},
		Column{Name: "Tipo de documento", Page: 8}, Column{Name: "Número de resolución", Page: 8},
		Column{Name: "Serie de documento", Page: 8},
		Column{Name: "Número de control interno (del)", Page: 8}, Column{Name: "Número de control interno (al)",
			Page: 8},
		Column{Name: "Número de documento (del)", Page: 8}, Column{Name: "Número de documento (al)", Page: 8},
		Column{Name: "N° de máquina registradora", Page: 8},
		Column{Name: "Ventas exentas", Page: 8}, Column{Name: "Ventas internas exentas no sujetas a proporcionalidad",
			Page: 9}, Column{Name: "Ventas no sujetas", Page: 9},
		Column{Name: "Ventas gravadas locales (con IVA)", Page: 9},
		Column{Name: "Exportaciones dentro del área centroamericana", Page: 9},
		Column{Name: "Exportaciones fuera del área centroamericana", Page: 9},
		Column{Name: "Exportaciones de servicios", Page: 9},
		Column{Name: "Ventas a zonas francas y DPA (tasa cero)", Page: 9},
		Column{Name: "Ventas a cuenta de terceros no domiciliados", Page: 9},
		Column{Name: "Total ventas", Page: 9}, Column{Name: "Tipo de operación (Renta)", Page: 9},
		Column{Name: "Tipo de ingreso (Renta)", Page: 10},
		Column{Name: "Número de anexo", Page: 10})
	annex05 = annex("anexo05.csv", "GH", Column{Name: "Tipo de documento", Page: 22},
		Column{Name: "Número de NIT, DUI u otro documento", Page: 23},
		Column{Name: "Nombre, razón social o denominación", Page: 23}, Column{Name: "Fecha de emisión del documento",
			Page: 23},
		Column{Name: "Número de serie del documento", Page: 23}, Column{Name: "Número de documento", Page: 23},
		Column{Name: "Monto de la operación", Page: 23},
		Column{Name: "Monto de la retención IVA 13%", Page: 23}, Column{Name: "Tipo de operación", Page: 23},
		Column{Name: "Clasificación", Page: 23},
		Column{Name: "Sector", Page: 24}, Column{Name: "Tipo de costo / gasto", Page: 24},
		Column{Name: "Número de anexo", Page: 24})
	annex09 = annex("anexo09.csv", "GH", Column{Name: "NIT sujeto", Page: 37},
		Column{Name: "Fecha de emisión del documento", Page: 37},
		Column{Name: "Tipo de documento", Page: 37}, Column{Name: "Número de resolución", Page: 37},
		Column{Name: "Serie de documento", Page: 38},
		Column{Name: "Número de documento", Page: 38}, Column{Name: "Monto sujeto", Page: 38},
		Column{Name: "Monto de la percepción 1% de IVA", Page: 38},
		Column{Name: "DUI sujeto", Page: 38}, Column{Name: "Número de anexo", Page: 38}).withNotes(2)
	annex10 = annex("anexo10.csv", "GH", Column{Name: "NIT del sujeto", Page: 41}, Column{Name: "Fecha de emisión",
		Page: 41},
		Column{Name: "Tipo de documento", Page: 41}, Column{Name: "Resolución", Page: 41},
		Column{Name: "Serie de documento", Page: 42},
		Column{Name: "Número de documento", Page: 42}, Column{Name: "Monto sujeto", Page: 42},
		Column{Name: "Monto de la retención 1% de IVA", Page: 42},
		Column{Name: "DUI sujeto", Page: 42}, Column{Name: "Número de anexo", Page: 42})
	// annex12 has series and resolution in the other order (p. 47).
	annex12 = annex("anexo12.csv", "GH", Column{Name: "NIT sujeto", Page: 47}, Column{Name: "Fecha de emisión",
		Page: 48},
		Column{Name: "Tipo de documento", Page: 48}, Column{Name: "Serie de documento", Page: 48},
		Column{Name: "Resolución", Page: 48},
		Column{Name: "Número de documento", Page: 48}, Column{Name: "Monto sujeto", Page: 48},
		Column{Name: "Monto de la retención 13% de IVA", Page: 48},
		Column{Name: "DUI sujeto", Page: 48}, Column{Name: "Número de anexo", Page: 48})
	cancelled = annex("anulados.csv", "", Column{Name: "Número de resolución", Page: 55},
		Column{Name: "Clase de documento", Page: 56},
		Column{Name: "Desde (preimpreso)", Page: 56}, Column{Name: "Hasta (preimpreso)", Page: 56},
		Column{Name: "Tipo de documento", Page: 56},
		Column{Name: "Tipo de detalle", Page: 56}, Column{Name: "Serie", Page: 56}, Column{Name: "Desde", Page: 56},
		Column{Name: "Hasta", Page: 57},
		Column{Name: "Código de generación", Page: 57})
	// f930 is the monthly report of the agent of perception and withholding.
	f930 = annex("f930.csv", "JK", Column{Name: "Correlativo"}, Column{Name: "NIT"}, Column{Name: "Nombre"},
		Column{Name: "Calidad"}, Column{Name: "Modalidad"},
		Column{Name: "Código de documento"}, Column{Name: "Fecha"}, Column{Name: "Serie"}, Column{Name: "Número"},
		Column{Name: "Monto sujeto"}, Column{Name: "Monto"})
	// taxpayers is the book of article 85: its letters a) to l), with the type of document, the sales that bear no VAT
	// by law and the code added where they belong.
	taxpayers = book("libro_contribuyentes.csv", "IJKLMNOP", "No.", "Fecha", "Tipo", "Número de control",
		"Código de generación", "Formulario único",
		"Cliente", "NRC", "Ventas exentas", "Ventas no sujetas", "Ventas gravadas", "Débito fiscal",
		"Ventas por cuenta de terceros",
		"Débito fiscal por cuenta de terceros", "Impuesto percibido", "Total de ventas")
	// consumers is the book of article 83, by day and series; adjustments (art. 87) have a row of their own.
	consumers = book("libro_consumidores.csv", "FGHIJK", "Fecha", "Establecimiento", "Del No.", "Al No.",
		"Máquina registradora", "Ventas exentas",
		"Ventas no sujetas", "Ventas gravadas locales", "Exportaciones", "Total de ventas", "Por cuenta de terceros",
		documentsColumn, "Ajuste")
	// purchases is what the box issues of the book of purchases (art. 86): the rest comes from suppliers.
	purchases = book("extracto_compras.csv", "IJKL", "No.", "Fecha", "Tipo", "Número de control",
		"Código de generación", "NRC",
		"NIT, DUI u otro documento", "Proveedor", "Compras a sujetos excluidos", "Monto sujeto a retención",
		"IVA retenido", "Renta retenida")
	// incomeTaxes are the purchases of excluded subjects of which income tax was withheld: F-14 of the month, F-910 of
	// the year.
	incomeTaxes = book("renta_retenida.csv", "GH", "No.", "Fecha", "NIT, DUI u otro documento", "Nombre",
		"Número de control",
		"Código de generación", "Monto de la operación", "Renta retenida")
	// expected are the sales of which the customer withheld VAT: each is owed a 07 by that customer.
	expected = book("retenciones_por_recibir.csv", "IJ", "No.", "Fecha", "Tipo", "Número de control",
		"Código de generación", "NIT o DUI",
		"NRC", "Cliente", "Ventas gravadas", "IVA retenido por el cliente")
)

var layouts = []*layout{annex01, annex02, annex05, annex09, annex10, annex12, cancelled, taxpayers, consumers, f930,
	purchases, incomeTaxes, expected}
