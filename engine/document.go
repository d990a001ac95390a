package engine

// kind is what the API calls a document type, the permission that it takes (SPEC 2.2, 2.8), and what it does to the
// document that it is issued against.
type kind struct {
	Tipo       string
	Permission string // "" for a return: it takes its origin's
	against    against
}

// against is what a document does to its origin.
type against uint8

const (
	nothing  against = iota
	credits          // takes of the amounts: a credit note
	debits           // adds to the amounts once MH accepts it: a debit note
	takeBack         // takes of the quantities: a return
)

var kinds = map[string]kind{
	"01": {"FACTURA_CONSUMIDOR_FINAL", "FACTURA_CONSUMIDOR_FINAL", nothing},
	"03": {"CREDITO_FISCAL", "CREDITO_FISCAL", nothing},
	"05": {"NOTA_CREDITO", "NOTA_CREDITO", credits},
	"06": {"NOTA_DEBITO", "NOTA_DEBITO", debits},
	"07": {"COMPROBANTE_RETENCION", "COMPROBANTE_RETENCION", nothing},
	"14": {"SUJETO_EXCLUIDO", "SUJETO_EXCLUIDO", nothing},
	"18": {"RETORNO", "", takeBack},
}

// Permission returns the permission that issuing a document type takes, "" for a return, whose origin decides.
func Permission(document string) string { return kinds[document].Permission }

// Tipo returns the API's name of a document type.
func Tipo(document string) string { return kinds[document].Tipo }
