package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path"
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
	// What AskArchive has found, for the call after an error: to read a chain's archive may take hours.
	lacking  map[string]uint64 // the highest numbers of the documents that the store lacks
	compared map[string]int    // how many documents of a folder were enough: few, many or all
}

// NewNumberGuard returns a guard. The store keeps the stopped series: a restart does not resume them.
func NewNumberGuard(store *storage.Store, issuer record.Issuer, archive *archive.Archive,
	log *slog.Logger) *NumberGuard {
	g := &NumberGuard{store: store, issuer: issuer, archive: archive, log: log,
		lacking: make(map[string]uint64), compared: make(map[string]int),
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

// How many archived documents that the store lacks are read, by day and type. At first few of every day are read,
// because the first sale waits only some seconds; then many, because other branches may archive thousands. A list is in
// the order of the codes, which are random: if 1 % of the documents are of this branch, many include one almost
// certainly. Once the store is known to lack documents, all are read, from the last day on: the highest numbers count.
const few, many, all = 20, 500, math.MaxInt

// No branch gives so many numbers. A forged number in the archive must not make recover move a series to its end.
const farAhead = 1_000_000_000

// AskArchive looks in the archive for documents of the given points of sale and types with higher numbers than the
// store, dated from one day before from until to. If it finds one, the numbering stops. Errors: the archive's, or the
// store's; the next call asks again only for the folders that were not read whole. Only one call may run at a time.
func (g *NumberGuard) AskArchive(ctx context.Context, points []record.Point, types []string, from, to time.Time) error {
	if g.archive == nil {
		return nil
	}
	var unread error // the first document that cannot be read; it hides no other
	for _, most := range []int{few, many, all} {
		first := from.Add(-24 * time.Hour)
		for day := to; !day.Before(first) && (most == all) == (len(g.lacking) > 0); day = day.AddDate(0, 0, -1) {
			for _, document := range types {
				series := make(map[string]string) // by what precedes the number in a control number
				for _, p := range points {
					series["DTE-"+document+"-"+p.Establishment+p.PointOfSale+"-"] = fmt.Sprintf("%s/%s/%s/%s/%d",
						g.issuer.Ambiente, document, p.Establishment, p.PointOfSale, dte.Year(day))
				}
				folder := path.Dir(archive.Key(g.issuer.Slug, strings.ToLower(record.AmbienteName(g.issuer.Ambiente)),
					dte.Date(day), document, "", "json")) + "/"
				if g.compared[folder] >= most {
					continue
				}
				failed, err := g.weighFolder(ctx, folder, series, most)
				if err != nil {
					return err
				}
				if unread = cmp.Or(unread, failed); failed == nil {
					g.compared[folder] = most
				}
			}
		}
	}
	if unread != nil {
		return unread
	}
	clear(g.lacking)
	clear(g.compared)
	return nil
}

// weighFolder weighs at most most documents that the store lacks. Three in a row that cannot be read end the folder.
// unread is the error of the first of them.
func (g *NumberGuard) weighFolder(ctx context.Context, folder string, series map[string]string,
	most int) (unread, err error) {
	read, row, cold := 0, 0, error(nil)
	for o, err := range g.archive.List(ctx, folder) {
		if err != nil {
			return nil, fmt.Errorf("asking the archive for what this store lacks: %w", err)
		}
		code, err := dte.ParseCode(strings.TrimSuffix(path.Base(o.Key), ".json"))
		if err != nil {
			continue // this product did not write the object
		}
		if _, err = g.store.Get(storage.Code(code)); err == nil {
			continue
		} else if !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		read, row = read+1, row+1
		switch err = g.weighUnknown(ctx, o.Key, series); {
		case err == nil:
			row = 0
		case errors.Is(err, archive.ErrCold):
			row, cold = 0, err
		default:
			unread = cmp.Or(unread, err)
		}
		if read == most || row == 3 {
			break
		}
	}
	if cold != nil || read == most {
		g.log.Warn("the archive holds documents that this store lacks: only some were compared", "folder", folder,
			"read", read, "error", cold)
	}
	return unread, nil
}

// weighUnknown notes in g.lacking the number of an archived document of one of the series. It stops the numbering if
// the number is above the one noted before and above the last number of its series in the store.
func (g *NumberGuard) weighUnknown(ctx context.Context, key string, series map[string]string) error {
	o, err := g.archive.Fetch(ctx, key, archive.MaxDocument)
	if err != nil && !errors.Is(err, archive.ErrTooLarge) && !errors.Is(err, archive.ErrNotFound) {
		return err
	}
	v, err := dte.Parse(o.Data)
	if err != nil {
		return nil //nolint:nilerr // this product did not write the object
	}
	control := v.Get("identificacion").Get("numeroControl").Text()
	at := strings.LastIndexByte(control, '-') + 1
	name := series[control[:at]]
	there, err := strconv.ParseUint(control[at:], 10, 64)
	if name == "" || err != nil {
		return nil //nolint:nilerr // as above
	}
	here, err := g.store.LastNumber(name)
	if err != nil || there <= g.lacking[name] || there > here+farAhead {
		return err
	}
	if g.lacking[name] = there; there > here {
		g.stopNumbering([]storage.Witness{{Medium: byArchive, Path: key,
			Series: []storage.Lead{{Series: name, Here: here, There: there}}}})
	}
	return nil
}
