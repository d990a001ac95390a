// Package document checks one document or event by itself: its signature, its text, the schema of its type and
// generation, catalogues, arithmetic, and the law of its day. It also checks what a document must repeat from another
// document that it names. It remembers nothing.
//
// [Reader] makes these checks in MH's order. schema.go has one row for each type and generation: its schema file and
// its checks. Refusals are in refusal.go. The sources are cited as in package simulator.
package document

import (
	"cmp"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Zone is El Salvador's time zone: UTC-6, without daylight saving. All of MH's dates and times are in this zone.
var Zone = time.FixedZone("America/El_Salvador", -6*60*60)

// Issuer is a taxpayer in MH's registry.
type Issuer struct {
	NIT string // 9 or 14 digits, no hyphens: also the user of the login
	// the API's password, not the portal's: 13 to 25 characters, with letters, digits and others (MT2)
	Password  string
	PublicKey *rsa.PublicKey // of the certificate in force; it verifies every signature

	// NRC, if not empty, is the only NRC that the issuer's documents may bear.
	NRC string
	// Activities, if not empty, are the CAT-019 codes under which the issuer may invoice.
	Activities []string
}

// Submission is a document or event as MH received it, alone or in a lot.
type Submission struct {
	Ambiente, Tipo, Code, JWS string
	Version                   int
}

// Enclosed returns the submission of a document without its own envelope: it takes the envelope's members from the
// document itself. A member that cannot be read stays empty.
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
	_ = json.Unmarshal(payload, &said) // Reader.open checks the content
	id := said.Identificacion
	sub.Ambiente, sub.Tipo, sub.Code = id.Ambiente, cmp.Or(id.TipoDte, id.TipoEvento), id.CodigoGeneracion
	if reasonable(string(id.Version)) {
		sub.Version = Object{"version": id.Version}.Integer("version")
	}
	return sub
}

// Document is a submission, and what was read of it once its signature was verified.
type Document struct {
	Submission
	Issuer    Issuer
	Payload   []byte // exactly as signed
	Root      Object
	At        time.Time       // of the reception, in El Salvador
	Turn      int64           // number of the reception among all receptions and seals
	Done      time.Time       // when MH has processed it: at once, or when its lot is done
	Duplicate bool            // its arrival was counted as a duplicate
	Previous  bool            // the generation is the one before DTE 2.0
	law       Law             // the law that applies to the document
	laws      *Laws           // all laws
	Habits    Habits          // MH's habits
	taxpayers map[string]bool // NITs that MH knows; empty: any
}

// Reread decodes an accepted document again.
func Reread(sub Submission, payload []byte) *Document {
	root, err := decode(payload)
	if err != nil {
		panic("simulator: an accepted document is no longer JSON: " + err.Error())
	}
	return &Document{Submission: sub, Root: root}
}

// Date returns the day that a document or event bears.
func (d *Document) Date() string {
	id := d.Root.Object("identificacion")
	return cmp.Or(id.Text("fecEmi"), id.Text("fecAnula"), id.Text("fTransmision"))
}

// IsEvent reports whether a type is an event and not a document.
func IsEvent(tipo string) bool { return tipo == Anulacion || tipo == Contingencia }

// agree compares envelope and document (MT1 §4.2.1: the envelope repeats members of identificacion). A retorno has
// tipoEvento in place of tipoDte; other events have neither.
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
