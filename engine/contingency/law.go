package contingency

import (
	"time"

	"dtegate/engine/dte"
)

// law is what the bundle of contingency events in force says of times and sizes.
type law struct {
	event          time.Duration // from the end of a cause to its event
	documents      time.Duration // from an event's seal to its documents
	correction     time.Duration // from a refusal to what puts it right
	report         time.Duration // of a contingency; one that lasts longer needs a technical report before its event
	eventDocuments int           // in one event
	lotDocuments   int           // in one lot
}

// law is that of today. What the bundle does not say is as it was when this was written (MF2 pp.19-20, MT1 §4.4, Normativa
// 2.0 p.31).
func (c *common) law() law {
	l := law{event: 24 * time.Hour, documents: 72 * time.Hour, correction: 24 * time.Hour, report: 72 * time.Hour, eventDocuments: 1000, lotDocuments: 100}
	rule, err := c.branch.Rules().PickEvent("contingencia", c.branch.Issuer.Ambiente, dte.Date(c.branch.Now()))
	if err != nil {
		return l
	}
	for name, d := range map[string]*time.Duration{"eventHours": &l.event, "documentHours": &l.documents, "correctionHours": &l.correction, "technicalReportHours": &l.report} {
		if n := rule.Whole(name); n > 0 {
			*d = time.Duration(n) * time.Hour
		}
	}
	for name, size := range map[string]*int{"eventDocuments": &l.eventDocuments, "lotDocuments": &l.lotDocuments} {
		if n := rule.Whole(name); n > 0 {
			*size = n
		}
	}
	return l
}
