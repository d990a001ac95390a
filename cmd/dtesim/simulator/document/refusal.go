package document

// Refusal is why MH refuses a document. The texts have MH's shape, "[json.path] TEXTO"; README.md lists which codes and
// texts are MH's, and which are ours because MH's were not published.
type Refusal struct {
	Code  string // codigoMsg
	Class string // clasificaMsg; "" is null
	Text  string // descripcionMsg
	Notes []string
}

// NotAllowed returns a refusal observed on anulardte, with a null class.
func NotAllowed(path string, notes ...string) *Refusal {
	return &Refusal{Code: "007", Text: "[" + path + "] VALOR NO ES PERMITIDO", Notes: notes}
}

// miscalculated returns a refusal observed with code 020 and the class 14 or 16.
func miscalculated(path string, notes ...string) *Refusal {
	return &Refusal{Code: "020", Class: "16", Text: "[" + path + "] CALCULO INCORRECTO", Notes: notes}
}

// lacking returns a refusal whose text was observed; its code was not published.
func lacking(path string, notes ...string) *Refusal {
	return &Refusal{Code: "003", Class: "13", Text: "[" + path + "] FALTAN DATOS PARA VALIDAR INFORMACION",
		Notes: notes}
}

// Misshapen returns an observed refusal.
func Misshapen(path string) *Refusal {
	return &Refusal{Code: "006", Text: "[" + path + "] FORMATO NO VÁLIDO"}
}

// Exists returns an observed refusal.
func Exists(path string) *Refusal {
	return &Refusal{Code: "004", Text: "[" + path + "] YA EXISTE UN REGISTRO CON ESE VALOR", Notes: []string{}}
}

// Absent returns a refusal observed on anulardte.
func Absent(path string, notes ...string) *Refusal {
	return &Refusal{Code: "014", Text: "[" + path + "] NO EXISTE UN REGISTRO CON ESTE DATO", Notes: notes}
}

// Misdated and exceeded return refusals whose texts were observed; their codes were not published.
func Misdated() *Refusal {
	return &Refusal{Code: "007", Text: "[documentoRelacionado.fechaEmision] FECHA NO ES CORRECTA"}
}

func exceeded(path string) *Refusal {
	return &Refusal{Code: "007", Text: "[" + path + "] MONTO ES MAYOR AL DOCUMENTO RELACIONADO"}
}

// Stranger returns an observed refusal.
func Stranger(path string) *Refusal {
	return &Refusal{Code: "008", Text: "[" + path + "] NO CORRESPONDE A CONTRIBUYENTE"}
}

// mismatched returns the refusal of an envelope that differs from its document. The text is ours.
func mismatched(field string) *Refusal {
	return &Refusal{Code: "003", Class: "13", Text: "[identificacion." + field + "] NO COINCIDE CON LA PETICION"}
}

// unschemed returns an observed refusal, with one observation per failing field.
func unschemed(notes ...string) *Refusal {
	return &Refusal{Code: "096", Class: "98", Text: "DOCUMENTO NO CUMPLE ESQUEMA JSON", Notes: notes}
}

// unsigned returns a refusal with the code and class of MT1 §4.3 and the text observed on recepciondte.
func unsigned() *Refusal {
	return &Refusal{Code: "802", Class: "20", Text: "Firma no válida", Notes: []string{}}
}

// Incomplete returns the refusal observed for an envelope that cannot be read.
func Incomplete() *Refusal {
	return &Refusal{Code: "094", Text: "PARAMETROS NO SON VALIDOS",
		Notes: []string{"Faltan datos en peticion para procesar informacion"}}
}
