package bundle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dtegate/rules/signed"
)

// The parts of a document bundle that describe its type. They are not members of the manifest, because an older
// appliance ignores unknown parts but refuses a manifest with unknown members.
const (
	typePart = "type.json"
	formPart = "form.json"
	viewPart = "view.json"
)

// TypeParts are the names of the parts that describe a type.
var TypeParts = []string{typePart, formPart, viewPart}

// Type is a bundle's description of a document type: its properties, a till's request, and the printed version.
type Type struct {
	Document   string `json:"-"`    // CAT-002, from the manifest
	Name       string `json:"name"` // in the API; it never changes, because stored documents are listed under it
	Es         string `json:"es"`
	En         string `json:"en"`
	Path       string `json:"path"`       // POST /dte/<path>
	Operation  string `json:"operation"`  // operationId of the contract
	Permission string `json:"permission"` // required for issuing; "": the permission for issuing the origin
	Effect     Effect `json:"effect"`     // of a document on its origin; it never changes
	// Origins are the types of document that a document of this type may refer to, such as the sale that a note
	// corrects.
	Origins []string `json:"origins,omitempty"`
	// Creditable defines what notes may deduct from a document of this type. For each amount of CreditableNames, it
	// lists the members of resumen that add up to the amount; "-" before a member subtracts it.
	Creditable   map[string][]string `json:"creditable,omitempty"`
	Invalidation Invalidation        `json:"invalidation"`
	// NotLater lists members of a line: dates that must not be later than the date of issue.
	NotLater []string `json:"notLater,omitempty"`
	// Tests is how many test documents MH must seal before it authorises an issuer.
	Tests int `json:"tests,omitempty"`
	// Closing is how a day's closing counts a document without an effect: as a sale (default if a payment is due), a
	// purchase or a withholding; "": not at all.
	Closing string `json:"closing,omitempty"`
	// Contingency is false for a type that MH does not accept in contingency (MF2 p.18).
	Contingency *bool `json:"contingency,omitempty"`

	Form *Form `json:"-"`
	View *View `json:"-"`
}

// How a day's closing counts a document.
const (
	Sale        = "sale"
	Purchase    = "purchase"
	Withholding = "withholding"
)

// Deferrable reports whether a document of the type may be issued in contingency.
func (t *Type) Deferrable() bool { return t.Contingency == nil || *t.Contingency }

// OwnPaths are the routes below /dte/ that the API itself uses. No type may have one of them.
var OwnPaths = []string{"cambios", "catalogos", "cierre", "correccion", "descarga", "documento", "documentos",
	"information", "invalidacion", "json", "pdf", "resend"}

// OwnPermissions are permissions of the API itself. No type may have one of them.
var OwnPermissions = []string{"ANULACION", "CONSULTA", "REENVIO"}

// Effect is the effect of a document on its origin.
type Effect string

const (
	Nothing   Effect = "nothing"
	Credits   Effect = "credits"    // reduces the amounts: a credit note
	Debits    Effect = "debits"     // adds to the amounts once MH accepts it: a debit note
	TakesBack Effect = "takes back" // reduces the quantities: a return
)

// CreditableNames are the amounts that notes change, by their names in resumen and in the order of their counters. MH
// compares each amount ("[resumen.totalGravada] MONTO ES MAYOR AL DOCUMENTO RELACIONADO").
var CreditableNames = [...]string{"totalGravada", "totalExenta", "totalNoSuj"}

// Invalidation defines until when a document may be invalidated, and how.
type Invalidation struct {
	Months        int    `json:"months,omitempty"`      // counted from the seal
	BusinessDay   int    `json:"businessDay,omitempty"` // last permitted business day of the month after the seal
	SameDate      bool   `json:"sameDate,omitempty"`    // the event must have the document's date
	NoReplacement bool   `json:"noReplacement,omitempty"`
	Source        string `json:"source"`
}

// Form describes a till's request: its members, and the fact that each member becomes.
type Form struct {
	About string `json:"about"` // English
	Es    string `json:"es"`    // the same in Spanish
	// Pays: a payment is due, cash by default (SPEC 2.7).
	Pays bool `json:"pays"`
	// Either lists pairs of names for one value. At least one of a pair is required; if both are given, they must be
	// equal.
	Either [][]string `json:"either"`
	// Origin is the member that names the origin by its code. Related is an object that may name the origin instead.
	Origin  string `json:"origin"`
	Related string `json:"related"`
	// ReceptorError: if a required member of the receptor is missing, the error has a special code (SPEC section 7).
	ReceptorError bool                       `json:"receptorError"`
	Does          []string                   `json:"does"` // names from Behaviours
	Members       []Member                   `json:"members"`
	Examples      map[string]json.RawMessage `json:"examples"`
}

// Member is one member of a request: its name, the fact that it becomes, and the permitted values.
type Member struct {
	Name      string          `json:"name"`
	Use       string          `json:"use"`   // a name from Groups
	Shape     string          `json:"shape"` // a name from Shapes, default text
	Due       []string        `json:"due"`   // for a group: its required members
	Extra     []Member        `json:"extra"` // more members of the group; for "sale" and "items": of each item
	Required  bool            `json:"required"`
	Min       json.Number     `json:"min"`
	Max       json.Number     `json:"max"`
	Above     bool            `json:"above"` // Min is exclusive
	Default   json.RawMessage `json:"default"`
	To        string          `json:"to"`    // the fact's path, or a value such as ToNone; "": the member's name
	Label     string          `json:"label"` // the label of the appendix entry
	Members   []Member        `json:"members"`
	Limit     int             `json:"limit"`    // most items of a list
	Numbered  bool            `json:"numbered"` // each item of the list gets the member numItem, from 1
	Person    bool            `json:"person"`   // an object with a person's identity numbers
	Blank     bool            `json:"blank"`    // a blank text counts as absent
	Lines     bool            `json:"lines"`    // a text that may have several lines
	Equals    string          `json:"equals"`   // the member's only permitted value
	Catalogue string          `json:"catalogue"`
	Format    string          `json:"format"`
	About     string          `json:"about"`     // English
	Es        string          `json:"es"`        // the same in Spanish
	Component string          `json:"component"` // name of the member's schema in the contract
	// Layout lists an object's members that MH requires in addition to Due, in the layouts before and since DTE 2.0.
	Layout struct {
		Before []string `json:"before"`
		Since  []string `json:"since"`
	} `json:"layout"`
}

// Names that a form may use: the shapes of a member, the groups of members that the API has for all types, and
// behaviours that are programmed in Go.
var (
	Shapes = []string{"text", "number", "integer", "flag", "object", "list", "texts"}
	Groups = []string{"sale", "items", "discounts", "retention", "consumer", "taxpayer", "address", "observaciones",
		"appendix"}
	// ofItems are the members of every item, and the facts made from them.
	ofItems = []string{"numItem", "descripcion", "cantidad", "precioUnitario", "precioUni", "codigo", "montoDescu",
		"tipoImpuesto", "uniMedida", "tipoItem", "tributos", "codTributo", "noGravado"}
	nameless   = []string{"sale", "items", "discounts", "retention", "observaciones", "appendix"}
	Behaviours = []string{"withholding"}
)

// Values of Member.To other than the path of a fact.
const (
	ToNone     = "none"     // no fact: the gateway itself reads the member
	ToAppendix = "apendice" // an entry of the appendix, under Label
	ToPayments = "resumen.pagos"
	ToSummary  = "resumen." // prefix: a member of resumen
	ToLine     = "line."    // prefix: a member of the only line, in types with one object as body
)

// View lists what the printed version of a type shows in addition to the fields that all types have.
type View struct {
	Party struct {
		Paths   []string `json:"paths"`
		Heading string   `json:"heading"`
	} `json:"party"`
	Final   []string          `json:"final"`
	Labels  map[string]string `json:"labels,omitempty"`
	Fields  []ViewField       `json:"fields,omitempty"`
	Columns []ViewColumn      `json:"columns,omitempty"`
}

// ViewField is a labelled value, and the block in which it is printed: emisor, party, terms or issue.
type ViewField struct {
	Path      string `json:"path"`
	Label     string `json:"label"`
	Catalogue string `json:"catalogue,omitempty"`
	In        string `json:"in"`
	// As is "count" if the number counts things; otherwise the number is money.
	As string `json:"as,omitempty"`
}

// ViewColumn is a column of the lines.
type ViewColumn struct {
	Paths     []string `json:"paths"`
	Head      string   `json:"head"`
	As        string   `json:"as,omitempty"` // text, money, count or date
	Catalogue string   `json:"catalogue,omitempty"`
}

var (
	typeForm       = signed.Form{Name: typePart, Wrong: ErrFormat}
	formForm       = signed.Form{Name: formPart, Wrong: ErrFormat}
	viewForm       = signed.Form{Name: viewPart, Wrong: ErrFormat}
	typePath       = regexp.MustCompile(`^[a-z][a-z0-9]{1,30}$`)
	typeName       = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,40}$`)
	operationName  = regexp.MustCompile(`^[a-z][A-Za-z0-9]{1,40}$`)
	documentNumber = regexp.MustCompile(`^[0-9]{2}$`)
)

// ParseType reads the parts that describe a type. It returns nil if the bundle has no such part. Every error names the
// part, line, column and path.
func ParseType(document string, parts map[string][]byte) (*Type, error) {
	have := 0
	for _, name := range TypeParts {
		if parts[name] != nil {
			have++
		}
	}
	switch have {
	case 0:
		return nil, nil
	case len(TypeParts):
	default:
		return nil, fmt.Errorf("%w: %s go together: it has %d of them", ErrFormat, strings.Join(TypeParts, ", "), have)
	}
	t := &Type{Document: document, Form: &Form{}, View: &View{}}
	err := errors.Join(parsePart(typeForm, parts[typePart], t, t.faults), parsePart(formForm, parts[formPart], t.Form,
		t.formFaults),
		parsePart(viewForm, parts[viewPart], t.View, t.View.faults))
	if t.Closing == "" && t.Effect == Nothing && t.Form.Pays {
		t.Closing = Sale
	}
	return t, err
}

type add func(path, format string, args ...any)

// mostOfLabel is the greatest length, in letters, of a label or a name: it must fit on a printed line.
const mostOfLabel = 60

// text notes a fault if a label or name is empty, unprintable or too long.
func (add add) text(path, text string) {
	switch {
	case strings.TrimSpace(text) == "":
		add(path, "is missing: it is shown to people")
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		add(path, "%q has unprintable characters", text)
	case utf8.RuneCountInString(text) > mostOfLabel:
		add(path, "has more than %d letters", mostOfLabel)
	}
}

func parsePart(f signed.Form, data []byte, into any, check func(add)) error {
	at, err := f.Parse(data, into)
	if err != nil {
		return err
	}
	var faults []error
	check(func(path, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s:%s: %s: %s", ErrFormat, f.Name, signed.Position(data,
			at.Nearest(path)), path, fmt.Sprintf(format, args...)))
	})
	return errors.Join(faults...)
}

func (t *Type) faults(add add) {
	if !documentNumber.MatchString(t.Document) {
		add("", "the manifest's document %q is not a type of CAT-002", t.Document)
	}
	for _, f := range []struct {
		path, value string
		form        *regexp.Regexp
		like        string
	}{
		{"name", t.Name, typeName, "FACTURA_EXPORTACION"}, {"path", t.Path, typePath, "ventas"},
		{"operation", t.Operation, operationName, "emitirFacturaExportacion"},
	} {
		if !f.form.MatchString(f.value) {
			add(f.path, "%q is not like %s", f.value, f.like)
		}
	}
	if slices.Contains(OwnPaths, t.Path) {
		add("path", "%q is a route of the API's own", t.Path)
	}
	add.text("es", t.Es)
	add.text("en", t.En)
	against := t.Effect != Nothing
	switch {
	case !slices.Contains([]Effect{Nothing, Credits, Debits, TakesBack}, t.Effect):
		add("effect", "%q is not nothing, credits, debits or takes back", t.Effect)
	case against != (len(t.Origins) > 0):
		add("origins", "a type with an effect must list its origins' types; a type without an effect must not")
	}
	if takesBack := t.Effect == TakesBack; t.Permission == "" != takesBack || !takesBack &&
		!typeName.MatchString(t.Permission) {
		add("permission", "%q is not like FACTURA_EXPORTACION (empty if the type takes back)", t.Permission)
	}
	if slices.Contains(OwnPermissions, t.Permission) {
		add("permission", "%q is a permission of the API's own", t.Permission)
	}
	for i, o := range t.Origins {
		if !documentNumber.MatchString(o) {
			add(fmt.Sprintf("origins[%d]", i), "%q is not a type of CAT-002", o)
		}
	}
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(t.Creditable)) {
		path, added := "creditable."+name, 0
		if !slices.Contains(CreditableNames[:], name) {
			add(path, "is not one of %s", strings.Join(CreditableNames[:], ", "))
		}
		for _, term := range t.Creditable[name] {
			bare, minus := strings.CutPrefix(term, "-")
			if !minus {
				added++
			}
			if seen[bare] {
				add(path, "%q counts twice", bare)
			}
			seen[bare] = true
		}
		if added != 1 {
			add(path, "adds %d members: exactly one member must be added; subtract the others with \"-\"", added)
		}
	}
	t.Invalidation.faults(add)
	if !slices.Contains([]string{"", Sale, Purchase, Withholding}, t.Closing) || t.Closing != "" && against {
		add("closing", "%q is not %s, %s or %s, or the type has an effect", t.Closing, Sale, Purchase, Withholding)
	}
	if t.Tests < 0 {
		add("tests", "%d is negative", t.Tests)
	}
}

func (v *Invalidation) faults(add add) {
	const most = 120
	switch {
	case v.Months == 0 && v.BusinessDay == 0:
		add("invalidation", "names no window: give months or businessDay, because every document has a deadline")
	case v.Months != 0 && v.BusinessDay != 0:
		add("invalidation", "names two windows: give months or businessDay, not both")
	case v.Months < 0 || v.Months > most || v.BusinessDay < 0 || v.BusinessDay > 31:
		add("invalidation", "months or businessDay is out of range")
	}
	if v.Source == "" {
		add("invalidation.source", "is missing: name the law that sets the window")
	}
}

func (t *Type) formFaults(add add) {
	f := t.Form
	if f.About == "" {
		add("about", "is missing: the contract shows it")
	}
	if against := t.Effect != Nothing; against != (f.Origin != "") {
		add("origin", "a type with an effect must name the member with the origin's code; other types must not")
	}
	names := make(map[string]bool)
	for i := range f.Members {
		f.Members[i].faults("members["+strconv.Itoa(i)+"]", true, names, add)
	}
	if len(f.Members) == 0 {
		add("members", "is missing")
	}
	for i, pair := range f.Either {
		path := fmt.Sprintf("either[%d]", i)
		if len(pair) != 2 {
			add(path, "is not a pair")
		}
		for j, name := range pair {
			if !names[name] {
				add(fmt.Sprintf("%s[%d]", path, j), "there is no member %q", name)
			}
		}
	}
	for path, name := range map[string]string{"origin": f.Origin, "related": f.Related} {
		if name != "" && !names[name] {
			add(path, "there is no member %q", name)
		}
	}
	for i, b := range f.Does {
		if !slices.Contains(Behaviours, b) {
			add(fmt.Sprintf("does[%d]", i), "%q is not one of %s", b, strings.Join(Behaviours, ", "))
		}
	}
}

func (m *Member) faults(path string, top bool, names map[string]bool, add add) {
	switch {
	case m.Use != "" && !slices.Contains(Groups, m.Use):
		add(path+".use", "%q is not one of %s", m.Use, strings.Join(Groups, ", "))
		return
	case m.Use != "" && (m.Shape != "" || len(m.Members) > 0):
		add(path, "a group has its own shape and members: give neither shape nor members")
	case m.Name == "" != slices.Contains(nameless, m.Use):
		add(path+".name", "is missing, or must be missing because the group %q has its own names", m.Use)
	case m.Use == "" && (len(m.Due) > 0 || len(m.Extra) > 0):
		add(path, "only a group has due and extra")
	case slices.Contains(nameless, m.Use) && m.Use != "sale" && m.Use != "items" && len(m.Extra) > 0:
		add(path+".extra", "the group %q cannot have extra members", m.Use)
	}
	if m.Name != "" && names[m.Name] {
		add(path+".name", "%q appears twice", m.Name)
	}
	names[m.Name] = true
	if m.Shape != "" && !slices.Contains(Shapes, m.Shape) {
		add(path+".shape", "%q is not one of %s", m.Shape, strings.Join(Shapes, ", "))
	}
	if nests := m.Shape == "object" || m.Shape == "list"; m.Use == "" && nests != (len(m.Members) > 0) {
		add(path+".members", "an object or a list must have members; other shapes must not")
	}
	if number := m.Shape == "number" || m.Shape == "integer"; !number && (m.Min != "" || m.Max != "" || m.Above) {
		add(path, "min, max and above belong to a number")
	}
	if !top && m.To != "" && strings.ContainsAny(m.To, ".[") {
		add(path+".to", "%q: a member of an object cannot become a fact elsewhere", m.To)
	}
	if m.To == ToAppendix {
		add.text(path+".label", m.Label)
	} else if m.Label != "" {
		add(path+".label", "only an entry of the appendix has a label")
	}
	var text string
	switch err := json.Unmarshal(m.Default, &text); {
	case len(m.Default) > 0 && strings.ContainsAny(string(m.Default[:1]), "[{"):
		add(path+".default", "must be a text, a number, true or false")
	case err == nil && m.Default[0] == '"':
		add.text(path+".default", text)
	}
	if m.Limit < 0 || m.Limit > 2000 {
		add(path+".limit", "%d is not from 0 to 2000", m.Limit)
	}
	for name, list := range map[string][]Member{"members": m.Members, "extra": m.Extra} {
		inner := make(map[string]bool)
		for i := range list {
			to := cmp.Or(list[i].To, list[i].Name)
			if slices.Contains(nameless, m.Use) && slices.Contains(ofItems, to) {
				add(fmt.Sprintf("%s.%s[%d]", path, name, i), "every item already has a member %s", to)
			}
			list[i].faults(fmt.Sprintf("%s.%s[%d]", path, name, i), false, inner, add)
		}
	}
}

func (v *View) faults(add add) {
	if len(v.Party.Paths) == 0 {
		add("party", "must give the paths of the other party, and its heading")
	}
	add.text("party.heading", v.Party.Heading)
	for _, name := range slices.Sorted(maps.Keys(v.Labels)) {
		add.text("labels."+name, v.Labels[name])
	}
	for i, f := range v.Fields {
		path := fmt.Sprintf("fields[%d]", i)
		add.text(path+".label", f.Label)
		if !slices.Contains([]string{"emisor", "party", "terms", "issue"}, f.In) {
			add(path+".in", "%q is not emisor, party, terms or issue", f.In)
		}
		if f.As != "" && f.As != "count" {
			add(path+".as", "%q is not count", f.As)
		}
	}
	for i, c := range v.Columns {
		path := fmt.Sprintf("columns[%d]", i)
		if len(c.Paths) == 0 {
			add(path+".paths", "is missing")
		}
		add.text(path+".head", c.Head)
		if !slices.Contains([]string{"", "text", "money", "count", "date"}, c.As) {
			add(path+".as", "%q is not text, money, count or date", c.As)
		}
	}
}

// neverChanges are the members of type.json by which documents are stored, counted, credited and permitted.
var neverChanges = []string{"name", "effect", "path", "permission", "creditable", "closing"}

// change is a member of type.json that differs from its value in the earlier description.
type change struct{ name, is, was string }

func (t *Type) changes(before *Type) (list []change) {
	is, was := reflect.ValueOf(*t), reflect.ValueOf(*before)
	for i := range is.NumField() {
		name, _, _ := strings.Cut(is.Type().Field(i).Tag.Get("json"), ",")
		a, _ := json.Marshal(is.Field(i).Interface()) // cannot fail: texts and numbers
		b, _ := json.Marshal(was.Field(i).Interface())
		if name != "-" && string(a) != string(b) {
			list = append(list, change{name, string(a), string(b)})
		}
	}
	return list
}

// Contradicts returns an error if a type differs from its earlier description in a value that never changes.
func (t *Type) Contradicts(before *Type) error {
	for _, c := range t.changes(before) {
		if slices.Contains(neverChanges, c.name) {
			return fmt.Errorf("%w: %s: %s is %s, but the type %s already has %s here, which never changes", ErrFormat,
				typePart, c.name, c.is, t.Document, c.was)
		}
	}
	return nil
}

// Succeeds returns how a type differs from its earlier description. It returns an error if they contradict each other
// (see Contradicts), if stored documents could be invalidated for a shorter time (such a law belongs in the bundle of
// the event), or if a taxpayer would be read as a consumer, without NIT and NRC.
func (t *Type) Succeeds(before *Type) (changed []string, err error) {
	if err := t.Contradicts(before); err != nil {
		return nil, err
	}
	if is, was := &t.Invalidation, &before.Invalidation; is.least() < was.most() &&
		!(is.Months >= was.Months && is.BusinessDay >= was.BusinessDay) {
		return nil, fmt.Errorf("%w: %s: invalidation: the window is shorter than before, also for stored "+
			"documents of type %s: shorten it in the bundle of the event invalidacion", ErrFormat, typePart, t.Document)
	}
	is, was := cmp.Or(t.Form, &Form{}), cmp.Or(before.Form, &Form{})
	for i, m := range is.Members {
		if m.Use == "consumer" && slices.ContainsFunc(was.Members, func(o Member) bool {
			return o.Name == m.Name && o.Use == "taxpayer"
		}) {
			return nil, fmt.Errorf("%w: %s: members[%d]: %q was a taxpayer, and NIT, NRC and activity of a consumer "+
				"are ignored", ErrFormat, formPart, i, m.Name)
		}
	}
	for _, c := range t.changes(before) {
		changed = append(changed, fmt.Sprintf("%s: %s: %s, was %s", typePart, c.name, c.is, c.was))
	}
	return changed, nil
}

// SucceedsType compares the types that two bundles describe, like Type.Succeeds.
func (b *Bundle) SucceedsType(before *Bundle) (changed []string, err error) {
	is, err := ParseType(b.Manifest.Document, b.Parts)
	was, wrong := ParseType(before.Manifest.Document, before.Parts)
	if err = errors.Join(err, wrong); err != nil || is == nil || was == nil {
		return nil, err
	}
	return is.Succeeds(was)
}

// least and most return the least and the greatest number of days for which a document can be invalidated. Business
// days are counted from the end of the month of the seal.
func (v *Invalidation) least() int { return v.Months*28 + v.BusinessDay }
func (v *Invalidation) most() int  { return v.Months*31 + min(v.BusinessDay, 1)*31 + v.BusinessDay*2 }
