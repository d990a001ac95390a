package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Numbers that this store lacks can be known elsewhere: an old copy of the store was put back, or another box numbers the
// same series. MH cannot be asked for the last number of a series: its query takes a codigoGeneracion (MT1 §4.3). It says so
// when a number is used twice, and the archive lists what was sealed.

// Witness hears of numbers that the store lacks.
type Witness struct {
	*core
	ahead atomic.Pointer[refusal.Error] // a witness outside of the box knows more numbers than the store
}

// Ahead is a series of which a witness knows a higher number than the store.
type Ahead struct {
	Witness     string // WitnessMH, WitnessArchive
	Series      string
	There, Here uint64
}

// Witnesses outside of the box.
const (
	WitnessMH      = "MH"
	WitnessArchive = "archive"
)

// witnessNames are what tills and operators call them.
var witnessNames = map[string]struct{ spanish, english string }{WitnessMH: {"Hacienda", "MH"}, WitnessArchive: {"el archivo", "the archive"}}

// behindRetry is when a till may try again: a person has to decide.
const behindRetry = time.Minute

// stopNumbering refuses every new document from now on, until the process ends: its next number may be another document's.
func (w *Witness) stopNumbering(list []Ahead) {
	var said, english []string
	for _, a := range list {
		w.log.Error("another medium knows more numbers than the store: nothing is numbered before dtectl reconcile",
			"witness", a.Witness, "series", a.Series, "there", a.There, "here", a.Here)
		said = append(said, fmt.Sprintf("%s conoce el %d de %s, aquí el %d", witnessNames[a.Witness].spanish, a.There, a.Series, a.Here))
		english = append(english, fmt.Sprintf("%s knows number %d of %s, the store %d", witnessNames[a.Witness].english, a.There, a.Series, a.Here))
	}
	w.metrics.ahead.Set(float64(len(list)))
	w.ahead.Store(&refusal.Error{Code: refusal.CodeStoreBehind, RetryAfter: behindRetry,
		Message: "Faltan documentos en la base del equipo (" + strings.Join(said[:min(3, len(said))], "; ") +
			"): no se emiten documentos nuevos hasta que soporte los concilie con dtectl reconcile",
		English: "The store lacks documents (" + strings.Join(english[:min(3, len(english))], "; ") + "): nothing is numbered before dtectl reconcile"})
}

// Behind is nil while no witness outside of the box knows more numbers than the store; else a *refusal.Error of CodeStoreBehind.
func (w *Witness) Behind() error {
	if err := w.ahead.Load(); err != nil {
		return err
	}
	return nil
}

// numberTaken is told that MH holds a number of ours under another code. The document is refused and its number spent; the
// next ones would meet the same.
func (w *Witness) numberTaken(code string) {
	id, err := dte.ParseCode(code)
	var entry storage.Entry
	if err == nil {
		entry, err = w.store.Get(storage.Code(id))
	}
	if err != nil {
		w.log.Error("reading the document whose number MH holds", "error", err)
		return
	}
	// What the store has under that number is not what MH has.
	w.stopNumbering([]Ahead{{WitnessMH, entry.Series, entry.Number, entry.Number - 1}})
}

// maxUnknown is how many objects of unknown documents are read from the archive: another branch's may be among them.
const maxUnknown = 500

// AskArchive looks for documents of these points of sale in the archive, dated in these days, both included, whose numbers
// are beyond the store's. Any stops the numbering. It fails when the archive cannot be asked.
func (w *Witness) AskArchive(ctx context.Context, points []seller.Point, from, to time.Time) error {
	if w.outbox.Archive() == nil {
		return nil
	}
	ahead := make(map[string]Ahead)
	unknown := 0
	for day := to; !day.Before(from.Add(-24*time.Hour)) && unknown < maxUnknown; day = day.AddDate(0, 0, -1) {
		prefix := w.issuer.Slug + "/DTES/" + strings.ToLower(record.AmbienteName(w.issuer.Ambiente)) + "/" + strings.ReplaceAll(dte.Date(day), "-", "/") + "/"
		for o, err := range w.outbox.Archive().List(ctx, prefix) {
			if err != nil {
				return fmt.Errorf("asking the archive for what this store lacks: %w", err)
			}
			code, err := dte.ParseCode(strings.TrimSuffix(path.Base(o.Key), ".json"))
			if err != nil {
				continue // a PDF
			}
			if _, err := w.store.Get(storage.Code(code)); !errors.Is(err, storage.ErrNotFound) {
				if err != nil {
					return err
				}
				continue
			}
			if unknown++; unknown > maxUnknown {
				w.log.Warn("the archive holds many documents that this store does not know: only the latest were compared", "read", maxUnknown)
				break
			}
			if err := w.weighUnknown(ctx, o.Key, points, ahead); err != nil {
				return err
			}
		}
	}
	if len(ahead) == 0 {
		return nil
	}
	var list []Ahead
	for _, a := range ahead {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b Ahead) int { return strings.Compare(a.Series, b.Series) })
	w.stopNumbering(list)
	return nil
}

// weighUnknown compares the number of an archived document with those of its series.
func (w *Witness) weighUnknown(ctx context.Context, key string, points []seller.Point, ahead map[string]Ahead) error {
	data, err := w.outbox.Archive().Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	v, err := dte.Parse(data)
	if err != nil {
		return nil //nolint:nilerr // nothing that this product has put there
	}
	id := v.Get("identificacion")
	control, date := id.Get("numeroControl").Text(), id.Get("fecEmi").Text()
	if len(control) != 31 || len(date) != 10 {
		return nil
	}
	mine := slices.ContainsFunc(points, func(p seller.Point) bool { return p.Establishment == control[7:11] && p.PointOfSale == control[11:15] })
	there, err := strconv.ParseUint(control[16:], 10, 64)
	if err != nil || !mine {
		return nil //nolint:nilerr // as above
	}
	series := fmt.Sprintf("%s/%s/%s/%s/%s", w.issuer.Ambiente, control[4:6], control[7:11], control[11:15], date[:4])
	here, err := w.store.LastNumber(series)
	if err != nil {
		return err
	}
	if there > here && there > ahead[series].There {
		ahead[series] = Ahead{WitnessArchive, series, there, here}
	}
	return nil
}
