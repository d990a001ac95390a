package documents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"

	"github.com/prometheus/client_golang/prometheus"
)

// NumberGuard stops the numbering when MH or the archive knows higher numbers of a series than the store: an old copy
// of the store was put back, or another box numbers the series. MH has no query for the last number (MT1 §4.3), but
// refuses a used number. The archive lists the sealed documents.
type NumberGuard struct {
	store   *storage.Store
	issuer  record.Issuer
	archive *archive.Archive // nil: no archive
	log     *slog.Logger
	ahead   atomic.Pointer[refusal.Error] // the refusal of every new document, or nil
	series  prometheus.Gauge
}

// NewNumberGuard returns a guard. The store keeps the stopped series: a restart does not resume them.
func NewNumberGuard(store *storage.Store, issuer record.Issuer, archive *archive.Archive,
	log *slog.Logger) *NumberGuard {
	g := &NumberGuard{store: store, issuer: issuer, archive: archive, log: log,
		series: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_numbers_ahead_series",
			Help: "Series for which MH or the archive knows a higher number than the store; above 0 nothing new is " +
				"issued before dtectl recover."})}
	held, err := store.Held()
	if err != nil {
		log.Error("reading which series are held", "error", err)
		g.ahead.Store(&refusal.Error{Code: refusal.CodeStoreBehind, RetryAfter: behindRetry,
			Message: "No se puede leer qué series están detenidas: avise a soporte",
			English: "Which series are held cannot be read: dtectl fsck"})
	}
	g.refuseFor(held)
	return g
}

// Gauge returns a metric: the number of series for which MH or the archive knows higher numbers than the store.
func (g *NumberGuard) Gauge() prometheus.Collector { return g.series }

// Values of storage.Witness.Medium: who knows a higher number.
const byMH, byArchive = "MH", "archive"

// names are the texts for byMH and byArchive in messages to tills and operators.
var names = map[string]struct{ spanish, english string }{byMH: {"Hacienda", "MH"},
	byArchive: {"el archivo", "the archive"}}

// behindRetry is how long a till waits before it retries: a person must decide first.
const behindRetry = time.Minute

// stopNumbering makes the guard refuse new documents, even after restarts: the next number may be taken.
func (g *NumberGuard) stopNumbering(list []storage.Witness) {
	held := list
	err := g.store.Hold(list)
	if err == nil {
		held, err = g.store.Held()
	}
	if err != nil {
		g.log.Error("holding series in the store: a restart would forget it", "error", err)
		held = list
	}
	g.refuseFor(held)
}

func (g *NumberGuard) refuseFor(list []storage.Witness) {
	if len(list) == 0 {
		return
	}
	var said, english []string
	for _, w := range list {
		h, name := w.Series[0], names[w.Medium]
		g.log.Error("a witness outside of the box knows more numbers: nothing is numbered before dtectl recover",
			"witness", w.Medium, "words", w.Path, "series", h.Series, "there", h.There, "here", h.Here)
		said = append(said, fmt.Sprintf("%s conoce el %d de %s, aquí el %d", name.spanish, h.There, h.Series, h.Here))
		english = append(english, fmt.Sprintf("%s knows number %d of %s, the store %d", name.english, h.There, h.Series,
			h.Here))
	}
	g.series.Set(float64(len(list)))
	g.ahead.Store(&refusal.Error{Code: refusal.CodeStoreBehind, RetryAfter: behindRetry,
		Message: "Faltan documentos en la base del equipo (" + strings.Join(said[:min(3, len(said))], "; ") +
			"): no se emiten documentos nuevos hasta que soporte los concilie con dtectl recover",
		English: "The store lacks documents (" + strings.Join(english[:min(3, len(english))], "; ") +
			"): run dtectl recover before this box issues new numbers"})
}

// Behind returns a *refusal.Error of CodeStoreBehind while the numbering is stopped, otherwise nil.
func (g *NumberGuard) Behind() error {
	if err := g.ahead.Load(); err != nil {
		return err
	}
	return nil
}

// NumberTaken must be called when MH refuses a document because it has the document's number under another code. MH
// would refuse the next numbers too: therefore the numbering stops. words is MH's text.
func (g *NumberGuard) NumberTaken(code, words string) {
	id, err := dte.ParseCode(code)
	var entry storage.Entry
	if err == nil {
		entry, err = g.store.Get(storage.Code(id))
	}
	if err != nil {
		g.log.Error("reading the document whose number MH holds", "error", err)
		return
	}
	// The store and MH have different documents under that number.
	g.stopNumbering([]storage.Witness{{Medium: byMH, Path: words, Series: []storage.Lead{{Series: entry.Series,
		Here: entry.Number - 1, There: entry.Number}}}})
}

// Limits of the archived documents that are read because the store lacks them: maxOwn of the given points of sale in
// all; of other points on each day fewOthers at first, because the first sale waits only some seconds, and then
// maxOthers on each of the last ten days. Other branches may archive many documents every day. Once a document shows
// that the store lacks numbers, or the last number's document, all are read, from the last day on: the highest number
// of each series counts.
const maxOwn, fewOthers, maxOthers, all = 500, 50, 500, -1

// AskArchive looks in the archive for documents of the given points of sale with higher numbers than the store, dated
// from one day before from until to. If it finds one, the numbering stops. Errors: the archive's, or the store's.
func (g *NumberGuard) AskArchive(ctx context.Context, points []record.Point, from, to time.Time) error {
	if g.archive == nil {
		return nil
	}
	held := make(map[string]uint64)
	for _, most := range []int{fewOthers, maxOthers, all} {
		if (most == all) != (len(held) > 0) {
			continue
		}
		if err := g.weighDays(ctx, points, from, to, most, held); err != nil {
			return err
		}
	}
	return nil
}

func (g *NumberGuard) weighDays(ctx context.Context, points []record.Point, from, to time.Time, most int,
	held map[string]uint64) error {
	own := 0
	first := from.Add(-24 * time.Hour)
	for day := to; !day.Before(first) && (own < maxOwn || most == all); day = day.AddDate(0, 0, -1) {
		if most == maxOthers && to.Sub(day) >= 10*24*time.Hour {
			break // after a year, it would take hours
		}
		prefix := g.issuer.Slug + "/DTES/" + strings.ToLower(record.AmbienteName(g.issuer.Ambiente)) + "/" +
			strings.ReplaceAll(dte.Date(day), "-", "/") + "/"
		others := 0
		for o, err := range g.archive.List(ctx, prefix) {
			if err != nil {
				return fmt.Errorf("asking the archive for what this store lacks: %w", err)
			}
			code, err := dte.ParseCode(strings.TrimSuffix(path.Base(o.Key), ".json"))
			if err != nil {
				continue // a PDF
			}
			if _, err := g.store.Get(storage.Code(code)); !errors.Is(err, storage.ErrNotFound) {
				if err != nil {
					return err
				}
				continue
			}
			mine, err := g.weighUnknown(ctx, o.Key, points, held)
			if err != nil || most != all && len(held) > 0 {
				return err
			}
			if mine {
				own++
			} else {
				others++
			}
			if most != all && (own == maxOwn || others == most) {
				g.log.Warn("the archive holds many documents that this store lacks: only some were compared", "day",
					dte.Date(day))
				break
			}
		}
	}
	return nil
}

// weighUnknown stops the numbering if an archived document has a number above the last number of its series in the
// store, and above the number in held. mine reports whether the document is of one of the points of sale.
func (g *NumberGuard) weighUnknown(ctx context.Context, key string, points []record.Point,
	held map[string]uint64) (mine bool, err error) {
	o, err := g.archive.Fetch(ctx, key, archive.MaxObject)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", key, err)
	}
	v, err := dte.Parse(o.Data)
	if err != nil {
		return false, nil //nolint:nilerr // this product did not write the object
	}
	id := v.Get("identificacion")
	control, date := id.Get("numeroControl").Text(), id.Get("fecEmi").Text()
	if len(control) != 31 || len(date) != 10 {
		return false, nil
	}
	mine = slices.ContainsFunc(points, func(p record.Point) bool {
		return p.Establishment == control[7:11] && p.PointOfSale == control[11:15]
	})
	there, err := strconv.ParseUint(control[16:], 10, 64)
	if err != nil || !mine {
		return false, nil //nolint:nilerr // as above
	}
	series := fmt.Sprintf("%s/%s/%s/%s/%s", g.issuer.Ambiente, control[4:6], control[7:11], control[11:15], date[:4])
	here, err := g.store.LastNumber(series)
	if err != nil {
		return true, err
	}
	if there < here || there <= held[series] {
		return true, nil
	}
	held[series] = there // equal to here: recover may have settled it before all were read
	if there > here {
		g.stopNumbering([]storage.Witness{{Medium: byArchive, Path: key,
			Series: []storage.Lead{{Series: series, Here: here, There: there}}}})
	}
	return true, nil
}
