package engine

import (
	"fmt"
	"strconv"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// This file holds what the layouts and the rules cannot know of a sale: dates against the day of issue, and people against
// those of another document.

// laterThanIssue refuses related documents that are dated after the day of issue: nothing can be withheld of what was not
// issued yet.
func laterThanIssue(d *draft) (faults []dte.Fault) {
	if d.request.Document != "07" {
		return nil
	}
	today := d.facts.Get("identificacion").Get("fecEmi").Text()
	lines := d.facts.Get("cuerpoDocumento")
	for i := range lines.Len() {
		if said := lines.Index(i).Get("fechaEmision").Text(); len(said) == len(today) && said > today {
			faults = append(faults, dte.Fault{Path: "cuerpoDocumento[" + strconv.Itoa(i) + "].fechaEmision", Code: dte.FaultRange,
				Message: "El documento no puede tener fecha posterior a la de hoy"})
		}
	}
	return faults
}

// sameTaxpayer refuses a note to another taxpayer than its original's (MF2 p.31: adjusting a document keeps its "NIT
// (Receptor)"). An invoice may have named nobody.
func sameTaxpayer(receptor dte.Value, o *origin) []dte.Fault {
	was := o.facts.Get("receptor")
	known := ""
	for _, before := range [...]string{was.Get("nit").Text(), was.Get("numDocumento").Text()} {
		for _, after := range [...]string{receptor.Get("nit").Text(), receptor.Get("numDocumento").Text()} {
			if before != "" && unspaced(before) == unspaced(after) {
				return nil
			}
		}
		if known == "" {
			known = before
		}
	}
	if known == "" || receptor.Get("nit").Text() == "" && receptor.Get("numDocumento").Text() == "" {
		return nil // the numbers that the note leaves out are the original's
	}
	var faults []dte.Fault
	for _, name := range [...]string{"nit", "numDocumento"} {
		if receptor.Get(name).Text() != "" {
			faults = append(faults, dte.Fault{Path: "receptor." + name, Code: dte.FaultCondition, Message: "El documento original es de " + known + ": la nota va al mismo contribuyente"})
		}
	}
	return faults
}

// unspaced is a number of a person without the hyphens and spaces that documents of earlier days may hold.
func unspaced(number string) string { return strings.NewReplacer("-", "", " ", "").Replace(number) }

// emisorOf is the issuer as the event shows it that is issued against a document: as that document does (MF2 p.8).
func (o *origin) emisorOf(now dte.Value) dte.Value {
	for _, name := range [...]string{"nombre", "codEstable", "codPuntoVenta"} {
		if was := o.facts.Get("emisor").Get(name); was.Exists() {
			now = now.With(name, was)
		}
	}
	return now
}

// nothingToPay is the warning on a document of 0.00, which MH takes where its layout lets it.
const nothingToPay = "El total del documento es 0.00"

// notYet refuses a document type whose rules begin on a later day: repeating the request before is of no use.
func (s *sales) notYet(document string) *refusal.Error {
	from := s.rules().Begins(document, s.issuer.Ambiente)
	if from == "" {
		return nil
	}
	return &refusal.Error{Code: refusal.CodeNotYet, Message: fmt.Sprintf("El documento de tipo %s (%s) se emite desde el %s, con la siguiente generación de Hacienda; antes no existe",
		document, record.Types[document].Tipo, spanishDate(from))}
}

// spanishDate is a date as people say it: "1 de diciembre de 2026".
func spanishDate(date string) string {
	var year, month, day int
	if n, err := fmt.Sscanf(date, "%d-%d-%d", &year, &month, &day); n != 3 || err != nil || month < 1 || month > 12 {
		return date
	}
	months := [...]string{"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"}
	return fmt.Sprintf("%d de %s de %d", day, months[month-1], year)
}
