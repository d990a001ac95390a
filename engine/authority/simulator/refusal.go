package simulator

// refusal is why MH refuses a document. The texts have MH's shape, "[json.path] TEXTO"; README.md tells which codes
// and texts are MH's own and which are this package's for want of a published one.
type refusal struct {
	code  string // codigoMsg
	class string // clasificaMsg; "" is null
	text  string // descripcionMsg
	notes []string
}

// notAllowed: observed on anulardte, with a null class.
func notAllowed(path string, notes ...string) *refusal {
	return &refusal{code: "007", text: "[" + path + "] VALOR NO ES PERMITIDO", notes: notes}
}

// miscalculated: observed, code 020; the class was seen as 14 and as 16.
func miscalculated(path string, notes ...string) *refusal {
	return &refusal{code: "020", class: "16", text: "[" + path + "] CALCULO INCORRECTO", notes: notes}
}

// lacking: the text was observed, its code was not published.
func lacking(path string, notes ...string) *refusal {
	return &refusal{code: "003", class: "13", text: "[" + path + "] FALTAN DATOS PARA VALIDAR INFORMACION", notes: notes}
}

// misshapen: observed.
func misshapen(path string) *refusal {
	return &refusal{code: "006", text: "[" + path + "] FORMATO NO VÁLIDO"}
}

// exists: observed.
func exists(path string) *refusal {
	return &refusal{code: "004", text: "[" + path + "] YA EXISTE UN REGISTRO CON ESE VALOR", notes: []string{}}
}

// absent: observed on anulardte.
func absent(path string, notes ...string) *refusal {
	return &refusal{code: "014", text: "[" + path + "] NO EXISTE UN REGISTRO CON ESTE DATO", notes: notes}
}

// misdated and exceeded: the texts were observed, their codes were not published.
func misdated() *refusal {
	return &refusal{code: "007", text: "[documentoRelacionado.fechaEmision] FECHA NO ES CORRECTA"}
}

func exceeded(path string) *refusal {
	return &refusal{code: "007", text: "[" + path + "] MONTO ES MAYOR AL DOCUMENTO RELACIONADO"}
}

// stranger: observed.
func stranger(path string) *refusal {
	return &refusal{code: "008", text: "[" + path + "] NO CORRESPONDE A CONTRIBUYENTE"}
}

// mismatched: the envelope says one thing and the document another. The text is ours.
func mismatched(field string) *refusal {
	return &refusal{code: "003", class: "13", text: "[identificacion." + field + "] NO COINCIDE CON LA PETICION"}
}

// unschemed: observed, with one observation per failing field.
func unschemed(notes ...string) *refusal {
	return &refusal{code: "096", class: "98", text: "DOCUMENTO NO CUMPLE ESQUEMA JSON", notes: notes}
}

// unsigned: code and class from MT1 §4.3, the text as observed on recepciondte.
func unsigned() *refusal {
	return &refusal{code: "802", class: "20", text: "Firma no válida", notes: []string{}}
}

// incomplete: observed, for an envelope that cannot be read.
func incomplete() *refusal {
	return &refusal{code: "094", text: "PARAMETROS NO SON VALIDOS",
		notes: []string{"Faltan datos en peticion para procesar informacion"}}
}
