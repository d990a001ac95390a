package engine

// kind is what the API calls a document type, and the permission that it takes (SPEC 2.2, 2.8).
type kind struct {
	Tipo       string
	Permission string
}

var kinds = map[string]kind{
	"01": {"FACTURA_CONSUMIDOR_FINAL", "FACTURA_CONSUMIDOR_FINAL"},
	"03": {"CREDITO_FISCAL", "CREDITO_FISCAL"},
}

// Permission returns the permission that issuing a document type takes, "" for a type that is not issued here.
func Permission(document string) string { return kinds[document].Permission }
