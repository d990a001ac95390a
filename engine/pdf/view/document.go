package view

// ConsultURL is MH's public consultation, the content of the QR code (MT1 §5).
const ConsultURL = "https://admin.factura.gob.sv/consultaPublica?ambiente={ambiente}&codGen={codigoGeneracion}&fechaEmi={fecEmi}"

// State is what a document is at the time of printing.
type State uint8

// The states that are printed. A rejected document has no printed version.
const (
	Processed   State = iota // sealed by MH
	Contingency              // issued in contingency, not sealed yet
	Invalidated              // sealed, and void since
)

// Document is what is printed.
type Document struct {
	JSON     []byte // the sealed bytes: the document as it was signed
	Seal     string // selloRecibido; "" exactly in the state Contingency
	Received string // fhProcesamiento as MH gave it, "01/12/2026 10:15:30"; may be ""
	State    State
	Note     string // printed with the mark INVALIDADO, such as the event's date and seal; may hold line breaks
	// Rest, if not nil, is called between two pieces of work, at each line and page, and may sleep: 2,000 lines take a tenth of a
	// second of the processor and more, and others want it too.
	Rest func()
}
