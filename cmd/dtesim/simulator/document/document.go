package document

import (
	"cmp"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Zone is El Salvador's: UTC-6, without daylight saving. MH dates and answers in it.
var Zone = time.FixedZone("America/El_Salvador", -6*60*60)

// Issuer is a taxpayer as MH has it registered.
type Issuer struct {
	NIT string // 9 or 14 digits, no hyphens: also the user of the login
	// of the API, not of the portal: 13 to 25 characters, with letters, digits and others (MT2)
	Password  string
	PublicKey *rsa.PublicKey // of the certificate in force; every signature is held against this one

	// NRC, when not empty, is the only one that the issuer's documents may bear.
	NRC string
	// Activities, when not empty, are the CAT-019 codes that the issuer may invoice under.
	Activities []string
}

// Submission is what any way of receiving a document or event hands on.
type Submission struct {
	Ambiente, Tipo, Code, JWS string
	Version                   int
}

// Enclosed is a submission without an envelope of its own: what the document says of itself, believed as an envelope
// would be. What cannot be read stays empty.
func Enclosed(jws string) (sub Submission) {
	sub.JWS = jws
	_, rest, _ := strings.Cut(jws, ".")
	part, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return sub
	}
	var said struct {
		Identificacion struct {
			Ambiente, TipoDte, TipoEvento, CodigoGeneracion string
			Version                                         json.Number
		}
	}
	_ = json.Unmarshal(payload, &said) // what it says is checked when it is opened
	id := said.Identificacion
	sub.Ambiente, sub.Tipo, sub.Code = id.Ambiente, cmp.Or(id.TipoDte, id.TipoEvento), id.CodigoGeneracion
	if reasonable(string(id.Version)) {
		sub.Version = Object{"version": id.Version}.Integer("version")
	}
	return sub
}

// Document is a submission whose signature held.
type Document struct {
	Submission
	Issuer    Issuer
	Payload   []byte // exactly as signed
	Root      Object
	At        time.Time       // of the reception, in El Salvador
	Turn      int64           // of the reception, among everything received and sealed
	Done      time.Time       // when MH has processed it: at once, or when its lot is done
	Duplicate bool            // counted as one when it arrived
	Previous  bool            // of the generation before DTE 2.0
	law       Law             // that it is held to
	laws      *Laws           // all that there are
	Habits    Habits          // and MH's habits
	taxpayers map[string]bool // that MH knows; empty: any
}

// Reread is a document again that was accepted before.
func Reread(sub Submission, payload []byte) *Document {
	root, err := decode(payload)
	if err != nil {
		panic("simulator: an accepted document is no longer JSON: " + err.Error())
	}
	return &Document{Submission: sub, Root: root}
}

// Date is the day that a document or event bears.
func (d *Document) Date() string {
	id := d.Root.Object("identificacion")
	return cmp.Or(id.Text("fecEmi"), id.Text("fecAnula"), id.Text("fTransmision"))
}

// IsEvent tells what is no document.
func IsEvent(tipo string) bool { return tipo == Anulacion || tipo == Contingencia }

// agree compares envelope and document (MT1 §4.2.1: the envelope repeats what identificacion says). The retorno says
// tipoEvento where documents say tipoDte; the other events say neither.
func agree(d *Document) *Refusal {
	id := d.Root.Object("identificacion")
	if id == nil {
		return unschemed(required("/identificacion"))
	}
	kind := "tipoDte"
	if d.Tipo == "18" {
		kind = "tipoEvento"
	}
	switch {
	case id.Text("ambiente") != d.Ambiente:
		return mismatched("ambiente")
	case id.Text(kind) != d.Tipo && !IsEvent(d.Tipo):
		return mismatched(kind)
	case id.Integer("version") != d.Version:
		return mismatched("version")
	case id.Text("codigoGeneracion") != d.Code:
		return mismatched("codigoGeneracion")
	}
	return nil
}
