package record

// Type is a type of document: its name in the API, the permission that issuing it needs (SPEC 2.2, 2.8), and its effect on its
// origin.
type Type struct {
	Tipo       string
	Permission string // "" for a return: it takes its origin's
	Against    Against
}

// Against is the effect of a document on its origin.
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

// Permission returns the permission that a token needs to issue a document type. It returns "" for a return, which needs the
// permission of its origin.
func Permission(document string) string { return Types[document].Permission }

// Tipo returns the API's name of a document type.
func Tipo(document string) string { return Types[document].Tipo }
