package books

import (
	"strconv"
	"strings"
)

// Column is a column of a file.
type Column struct {
	Letter string // of the column in a spreadsheet
	Name   string // in the manual's words
	Page   int    // page of the manual; 0: the file is no annex of the manual
}

type layout struct {
	Name    string // at most 25 characters (p. 2)
	Columns []Column
	header  bool   // a file for people, with headings; annexes have no headings (p. 1)
	title   string // the heading
	why     string // why a document has a row of its own
	sums    []int  // indexes of the columns that are added up
	// notesAt is the index of the type's column in annexes that write a credit note (05) as a positive amount, or 0.
	notesAt int
}

// annex returns the layout of a file. Each line of the text columns has a page of the manual and the columns on that
// page. A plus marks a column that is added up. A minus marks the column of types: the net sums subtract credit notes.
func annex(name, why, columns string) *layout {
	l := &layout{Name: name, why: why}
	for line := range strings.Lines(columns) {
		number, names, _ := strings.Cut(strings.TrimSpace(line), " ")
		page, err := strconv.Atoi(number)
		if err != nil {
			names = line
		}
		for name := range strings.SplitSeq(names, "|") {
			name = strings.TrimSpace(name)
			if name == "" {
				continue
			}
			i := len(l.Columns)
			switch name[0] {
			case '+':
				l.sums, name = append(l.sums, i), name[1:]
			case '-':
				l.notesAt, name = i, name[1:]
			}
			l.Columns = append(l.Columns, Column{string(rune('A' + i)), name, page})
		}
	}
	return l
}

func book(name, title, why, columns string) *layout {
	l := annex(name, why, columns)
	l.header, l.title = true, title
	return l
}

// documentsColumn is the column of the book of consumers with the number of documents in the row.
const documentsColumn = "Documentos"

// The files of rows. The annexes have the columns of the manual's tables, in the same order.
var (
	annex01 = annex("anexo01.csv", "ventas a contribuyentes: comprobantes de crédito fiscal y sus notas", `
		1 Fecha de emisión del documento | Clase de documento
		2 -Tipo de documento | Número de resolución | Número de serie de documento | Número de documento
		2 Número de control interno | NIT o NRC del cliente | Nombre, razón social o denominación
		2 +Ventas exentas | +Ventas no sujetas
		3 +Ventas gravadas locales | +Débito fiscal | +Ventas a cuenta de terceros no domiciliados
		3 +Débito fiscal por venta a cuenta de terceros | +Total ventas | DUI del cliente
		3 Tipo de operación (Renta)
		4 Tipo de ingreso (Renta) | Número de anexo`)
	annex02 = annex("anexo02.csv", "", `
		7 Fecha de emisión | Clase de documento
		8 Tipo de documento | Número de resolución | Serie de documento | Número de control interno (del)
		8 Número de control interno (al) | Número de documento (del) | Número de documento (al)
		8 N° de máquina registradora | +Ventas exentas
		9 +Ventas internas exentas no sujetas a proporcionalidad | +Ventas no sujetas
		9 +Ventas gravadas locales (con IVA) | +Exportaciones dentro del área centroamericana
		9 +Exportaciones fuera del área centroamericana | +Exportaciones de servicios
		9 +Ventas a zonas francas y DPA (tasa cero) | +Ventas a cuenta de terceros no domiciliados
		9 +Total ventas | Tipo de operación (Renta)
		10 Tipo de ingreso (Renta) | Número de anexo`)
	annex05 = annex("anexo05.csv", "compras a sujetos excluidos, casilla 66", `
		22 Tipo de documento
		23 Número de NIT, DUI u otro documento | Nombre, razón social o denominación
		23 Fecha de emisión del documento | Número de serie del documento | Número de documento
		23 +Monto de la operación | +Monto de la retención IVA 13% | Tipo de operación | Clasificación
		24 Sector | Tipo de costo / gasto | Número de anexo`)
	annex09 = annex("anexo09.csv", "percepción del 1 % efectuada, casilla 169", `
		37 NIT sujeto | Fecha de emisión del documento | -Tipo de documento | Número de resolución
		38 Serie de documento | Número de documento | +Monto sujeto | +Monto de la percepción 1% de IVA
		38 DUI sujeto | Número de anexo`)
	annex10 = annex("anexo10.csv", "retención del 1 % efectuada, casilla 170", `
		41 NIT del sujeto | Fecha de emisión | Tipo de documento | Resolución
		42 Serie de documento | Número de documento | +Monto sujeto | +Monto de la retención 1% de IVA
		42 DUI sujeto | Número de anexo`)
	// annex12 has series and resolution in the other order (p. 47).
	annex12 = annex("anexo12.csv", "retención del 13 % efectuada, casilla 172", `
		47 NIT sujeto
		48 Fecha de emisión | Tipo de documento | Serie de documento | Resolución | Número de documento
		48 +Monto sujeto | +Monto de la retención 13% de IVA | DUI sujeto | Número de anexo`)
	cancelled = annex("anulados.csv", "documento invalidado por un evento de este mes", `
		55 Número de resolución
		56 Clase de documento | Desde (preimpreso) | Hasta (preimpreso) | Tipo de documento | Tipo de detalle
		56 Serie | Desde
		57 Hasta | Código de generación`)
	// taxpayers is the book of article 85 with its letters a) to l). Three columns are inserted: the type of document,
	// the sales that are outside VAT by law, and the code.
	taxpayers = book("libro_contribuyentes.csv", "Libro de ventas a contribuyentes",
		"ventas a contribuyentes, art. 85 del reglamento", `
		No. | Fecha | Tipo | Número de control | Código de generación | Formulario único | Cliente | NRC
		+Ventas exentas | +Ventas no sujetas | +Ventas gravadas | +Débito fiscal
		+Ventas por cuenta de terceros | +Débito fiscal por cuenta de terceros | +Impuesto percibido
		+Total de ventas`)
	// consumers is the book of article 83, by day and series; adjustments (art. 87) have a row of their own.
	consumers = book("libro_consumidores.csv", "Libro de ventas a consumidores", "", `
		Fecha | Establecimiento | Del No. | Al No. | Máquina registradora | +Ventas exentas
		+Ventas no sujetas | +Ventas gravadas locales | +Exportaciones | +Total de ventas
		+Por cuenta de terceros | Documentos | Ajuste`)
	// exported is the detail of exports (art. 84). The document does not name the customs declaration.
	exported = book("detalle_exportaciones.csv", "Detalle de exportaciones", "exportaciones, art. 84 del reglamento", `
		No. | Fecha | Número de control | Código de generación | Cliente del exterior
		Declaración de mercancías | +Valor de las exportaciones`)
	// f930 is the monthly report of the agent of perception and withholding.
	f930 = annex("f930.csv", "lo percibido o retenido en el mes", `
		Correlativo | NIT | Nombre | Calidad | Modalidad | Código de documento | Fecha | Serie | Número
		+Monto sujeto | +Monto`)
	// purchases are the documents of the book of purchases (art. 86) that the box issues, not a supplier.
	purchases = book("extracto_compras.csv", "Extracto para el libro de compras: lo que emite esta caja",
		"lo que el libro de compras lleva de lo emitido (art. 86)", `
		No. | Fecha | Tipo | Número de control | Código de generación | NRC | NIT, DUI u otro documento
		Proveedor | +Compras a sujetos excluidos | +Monto sujeto a retención | +IVA retenido | +Renta retenida`)
	// incomeTaxes lists purchases with income tax withheld, for the month's F-14 and the year's F-910.
	incomeTaxes = book("renta_retenida.csv", "Renta retenida a sujetos excluidos",
		"renta retenida, para el F-14 y el F-910", `
		No. | Fecha | NIT, DUI u otro documento | Nombre | Número de control | Código de generación
		+Monto de la operación | +Renta retenida`)
	// expected lists the sales for which the customer withheld VAT, and owes a withholding voucher (07).
	expected = book("retenciones_por_recibir.csv", "Comprobantes de retención por recibir",
		"el cliente retuvo IVA y debe su comprobante (07)", `
		No. | Fecha | Tipo | Número de control | Código de generación | NIT o DUI | NRC | Cliente
		+Ventas gravadas | +IVA retenido por el cliente`)
	// The annexes of received documents.
	annex03 = annex("anexo03.csv", "", `
		12 Fecha de emisión del documento | Clase de documento
		13 -Tipo de documento | Número de documento | NIT o NRC del proveedor | Nombre del proveedor
		13 +Compras internas exentas y/o no sujetas | +Internaciones exentas y/o no sujetas
		13 +Importaciones exentas y/o no sujetas
		14 +Compras internas gravadas | +Internaciones gravadas de bienes | +Importaciones gravadas de bienes
		14 +Importaciones gravadas de servicios | +Crédito fiscal | +Total de compras | DUI del proveedor
		14 Tipo de operación (Renta)
		15 Clasificación (Renta) | Sector (Renta) | Tipo de costo / gasto (Renta) | Número de anexo`)
	annex06 = annex("anexo06.csv", "", `
		28 NIT agente | Fecha de emisión del documento | Serie de documento | Número de documento | +Monto sujeto
		29 +Monto del anticipo a cuenta 2% de IVA | DUI agente | Número de anexo`)
	annex07 = annex("anexo07.csv", "", `
		31 NIT agente | Fecha de emisión | Tipo de documento | Serie
		32 Número de documento | +Monto sujeto | +Monto de la retención 1% | DUI agente | Número de anexo`)
	annex08 = annex("anexo08.csv", "", `
		34 NIT agente | Fecha de emisión del documento | -Tipo de documento | Serie de documento
		34 Número de documento
		35 +Monto sujeto | +Monto de la percepción | DUI agente | Número de anexo`)
)

// layouts are the files of issued documents. receivedLayouts are the files of received documents.
var (
	layouts = []*layout{annex01, annex02, annex05, annex09, annex10, annex12, cancelled, taxpayers, consumers, exported,
		f930, purchases, incomeTaxes, expected}
	receivedLayouts = []*layout{annex03, annex06, annex07, annex08}
)
