package record

// Type is a type of document: what the API calls a document type, the permission that it takes (SPEC 2.2, 2.8), and what it does to the
// document that it is issued against.
type Type struct {
	Tipo       string
	Permission string // "" for a return: it takes its origin's
	Against    Against
}

// Against is what a document does to its origin.
type Against uint8

// What a document does to its origin.
const (
	Nothing   Against = iota
	Credits           // takes of the amounts: a credit note
	Debits            // adds to the amounts once MH accepts it: a debit note
	TakesBack         // takes of the quantities: a return
)

// Types are the documents that a branch issues, by CAT-002.
var Types = map[string]Type{
	"01": {"FACTURA_CONSUMIDOR_FINAL", "FACTURA_CONSUMIDOR_FINAL", Nothing},
	"03": {"CREDITO_FISCAL", "CREDITO_FISCAL", Nothing},
	"05": {"NOTA_CREDITO", "NOTA_CREDITO", Credits},
	"06": {"NOTA_DEBITO", "NOTA_DEBITO", Debits},
	"07": {"COMPROBANTE_RETENCION", "COMPROBANTE_RETENCION", Nothing},
	"14": {"SUJETO_EXCLUIDO", "SUJETO_EXCLUIDO", Nothing},
	"18": {"RETORNO", "", TakesBack},
}

// Permission returns the permission that issuing a document type takes, "" for a return, whose origin decides.
func Permission(document string) string { return Types[document].Permission }

// Tipo returns the API's name of a document type.
func Tipo(document string) string { return Types[document].Tipo }
