package record

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// Issuer is the taxpayer for which this box issues. A box has one taxpayer and one ambiente.
type Issuer struct {
	ID       int64
	Slug     string    // first element of the archive's paths
	Ambiente string    // CAT-001: "00" test, "01" production
	Facts    dte.Value // the members of emisor, under the schema's names, without those that a Point adds
}

// Point is the point of sale that issues a document. Its two codes form the middle of the control number (MF2 p.28):
// Establishment is a letter M, B, S or P and three digits, PointOfSale a P and three digits.
type Point struct {
	ID            int64
	BranchID      int64
	Establishment string
	PointOfSale   string
}

// Caller is a token with its point of sale and permissions, or an operator.
type Caller struct {
	TokenID     int64
	Point       Point
	Permissions []string
	From        string // address of the request's sender
	OwnTypes    bool   // the caller reads only document types that it may issue, and its point of sale's returns
	Operator    bool   // the caller is not a till; operators read the documents of every branch
	MailsOthers bool   // the caller may mail a document to an address that is not in the document
}

// Person is the responsible person of an event, or the applicant of an invalidation. DocumentType is CAT-022.
type Person struct{ Name, DocumentType, Document string }

// Permissions of this appliance in addition to those of SPEC 2.8.
const (
	PermissionRead = "CONSULTA" // reads types that the token may not issue, if reading is restricted
	PermissionMail = "REENVIO"  // mails a document to an address that is not on it
)

// Issues reports whether the caller may issue a type. For a return, which has no permission of its own, it is false.
func (c *Caller) Issues(document string) bool {
	p := TypeOf(document).Permission
	return p != "" && slices.Contains(c.Permissions, p)
}

// Reads reports whether the caller may read a document of its branch.
func (c *Caller) Reads(h *Head) bool {
	return !c.OwnTypes || c.Issues(h.Document) || TypeOf(h.Document).Effect == bundle.TakesBack &&
		h.PointID == c.Point.ID
}

// ReadsAll reports whether the caller may read every known type that has a permission, even types not issued here.
func (c *Caller) ReadsAll() bool {
	return !c.OwnTypes || !slices.ContainsFunc(Known(), func(t *bundle.Type) bool {
		return t.Permission != "" && !c.Issues(t.Document)
	})
}

// Readable returns the types of documents that a caller may list; nil means all.
func (c *Caller) Readable() (types []string) {
	if !c.OwnTypes {
		return nil
	}
	types = []string{}
	for _, t := range Known() {
		if c.Issues(t.Document) {
			types = append(types, t.Document)
		}
	}
	return types
}

// kinds has the kind of establishment (CAT-009) by the first letter of its code (MF2 p.28).
var kinds = map[byte]string{'M': "02", 'S': "01", 'B': "04", 'P': "07"}

// Emisor returns the member emisor of a document issued at p. If the issuer's data lack the kind of establishment,
// the first letter of its code gives the kind.
func Emisor(i Issuer, p Point) dte.Value {
	set := append(make([]dte.Member, 0, 5), dte.Member{Name: "codEstable", Value: dte.Str(p.Establishment)},
		dte.Member{Name: "codPuntoVenta", Value: dte.Str(p.PointOfSale)})
	if !i.Facts.Get("tipoEstablecimiento").Present() && p.Establishment != "" {
		set = append(set, dte.Member{Name: "tipoEstablecimiento", Value: dte.Str(kinds[p.Establishment[0]])})
	}
	if nit := i.Facts.Get("nit"); nit.Exists() { // a donation names its issuer, the donee, by these members
		set = append(set, dte.Member{Name: "tipoDocumento", Value: dte.Str("36")}, dte.Member{Name: "numDocumento",
			Value: nit})
	}
	return i.Facts.Set(set...)
}

// EstablishmentOf returns establishment and point of sale from a document's control number, or else those of p.
func EstablishmentOf(h *Head, p Point) (establishment, point string) {
	if len(h.ControlNumber) == 31 { // DTE-01-M001P001-000000000000001
		return h.ControlNumber[7:11], h.ControlNumber[11:15]
	}
	return p.Establishment, p.PointOfSale
}

// Receiver is the receiver of a document, in the form that a search compares.
type Receiver struct {
	Name    string   `json:"name,omitempty"`    // folded: see Fold
	Numbers []string `json:"numbers,omitempty"` // of identification, NIT and NRC, without hyphens and spaces
}

// IssuerOf returns the issuer object of a document: emisor, or donatario for a donation.
func IssuerOf(document dte.Value) dte.Value { return part(document, "emisor", "donatario") }

// Party returns the receiver object of a document or of its facts. Its name depends on the type of the document.
func Party(document dte.Value) dte.Value {
	return part(document, "receptor", "sujetoExcluido", "donante", "documento")
}

func part(document dte.Value, names ...string) dte.Value {
	for _, name := range names {
		if v := document.Get(name); v.Kind() == dte.KindObject {
			return v
		}
	}
	return dte.Null()
}

// ReceiverOf returns the receiver of a document or of its facts.
func ReceiverOf(document dte.Value) Receiver {
	v := Party(document)
	r := Receiver{Name: Fold(v.Get("nombre").Text())}
	for _, name := range []string{"numDocumento", "nit", "nrc"} {
		if n := Compact(v.Get(name).Text()); n != "" && !slices.Contains(r.Numbers, n) {
			r.Numbers = append(r.Numbers, n)
		}
	}
	return r
}

// Is reports whether a text is a number of the receiver, or a part of its name.
func (r *Receiver) Is(text string) bool {
	return slices.Contains(r.Numbers, Compact(text)) || strings.Contains(r.Name, Fold(text))
}

var (
	folded    = strings.NewReplacer("á", "a", "é", "e", "í", "i", "ó", "o", "ú", "u", "ü", "u", "ñ", "n")
	compacted = strings.NewReplacer("-", "", " ", "")
)

// Fold returns a name in small letters and without accents, with one space between words.
func Fold(name string) string {
	return folded.Replace(strings.ToLower(strings.Join(strings.Fields(name), " ")))
}

// Compact returns an identity number without hyphens and spaces, in capitals.
func Compact(number string) string { return strings.ToUpper(compacted.Replace(number)) }

// IdempotencyKey returns the stored form of a till's key. Each point of sale has its own keys.
func IdempotencyKey(point int64, key string) (stored [32]byte) {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, point)
	h.Write([]byte(key))
	h.Sum(stored[:0])
	return stored
}
