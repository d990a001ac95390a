// Package health watches dted's machine. The gate decides whether the box is fit for a new document, by its disk, its
// clock, its media and the branch's enrolment. The package also checks the mark in the background, reports to systemd,
// records whether MH answers, and protects the process's memory.
package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health/clock"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Gate refuses new documents while the box is not fit: its store is damaged, cannot be written or lacks documents, its
// disk lacks space, its clock is wrong, or the chain does not give it the branch. Work on issued documents continues.
// The sale, /readyz and the status page ask the same gate.
type Gate struct {
	health    func() error // the store's health
	disk      *disk
	clock     *clock.Clock
	authority string            // MH's address, which is asked for the time
	transport http.RoundTripper // to MH
	behind    func() []storage.Witness
	// The archive's address, asked for the time if MH contradicts the box; may be ""
	archive string
	second  http.RoundTripper // to the archive
	// The store's last activity before this start, or an earlier time since which it may lack documents; zero: none
	Stored time.Time
	Fence  *fleet.Fence // which box has the branch; nil: the branch belongs to no chain
}

// NewGate returns a gate; Guard connects it with the store. On a full disk NewGate first deletes the ballast.
func NewGate(cfg *config.Config, toMH http.RoundTripper, log *slog.Logger) *Gate {
	g := &Gate{disk: newDisk(cfg.Data, int64(cfg.DiskReserve), log), authority: cfg.Authority.URL, transport: toMH,
		second: &http.Transport{DialContext: (&net.Dialer{Timeout: clock.AskFirst}).DialContext,
			TLSHandshakeTimeout: 10 * clock.AskFirst}}
	if cfg.Archive != nil {
		g.archive = cfg.Archive.Endpoint
	}
	g.disk.tend()
	return g
}

// Guard connects the gate with the open store: its health, the documents that other media of the box have and the store
// lacks, and the time of its last activity.
func (g *Gate) Guard(store *storage.Store, now func() time.Time, log *slog.Logger) error {
	last, unsure, err := store.LastBeat()
	if err != nil {
		return fmt.Errorf("reading the store's time: %w", err)
	}
	g.health, g.behind = store.Health, store.Behind
	g.clock, g.Stored = clock.New(last, now, log), last
	if !unsure.IsZero() {
		g.Stored = unsure
	}
	return nil
}

// Space returns the free space on the store's disk (zero if unknown) and the reserve, both in bytes.
func (g *Gate) Space() (free, reserve int64) {
	free, _ = g.disk.free()
	return free, g.disk.reserve
}

// Skew returns how far the box's clock was ahead of MH's at MH's latest answer; false before the first answer.
func (g *Gate) Skew() (time.Duration, bool) {
	_, skew, known := g.clock.State()
	return skew, known
}

// RoundTrip passes MH's answers on, and gives their dates to the clock.
func (g *Gate) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.transport.RoundTrip(r)
	if err == nil {
		g.clock.Observe(resp.Header.Get("Date"))
	}
	return resp, err
}

// Check returns nil if a new document may be issued.
func (g *Gate) Check() error {
	ill := checkBehind(g.behind())
	if err := g.health(); ill == nil && err != nil {
		ill = unfit(err)
	}
	if g.Fence != nil {
		s := g.Fence.Standing()
		lost := ill != nil && !errors.Is(ill, storage.ErrTables) // until it is recovered, such a store looks Cloned
		if err := CheckEnrolled(s); err != nil && !(lost && s.Cloned) {
			return err
		}
	}
	if ill != nil {
		return ill
	}
	if err := g.disk.check(); err != nil {
		return err
	}
	return g.clock.Check()
}

// unfit returns a till's error for a store that accepts nothing new. The store's own error is for the log.
func unfit(err error) error {
	message, english := "El equipo no puede leer bien su disco: no se emiten documentos nuevos; avise a soporte",
		"The store cannot be read as it was written: nothing new is issued"
	if errors.Is(err, storage.ErrTables) {
		message, english = "El equipo no puede escribir en su disco: no se emiten documentos nuevos; avise a soporte",
			"The store's disk cannot be written: nothing new is issued"
	}
	return &refusal.Error{Code: refusal.CodeUnavailable, RetryAfter: diskRetry, Message: message, English: english,
		Err: err}
}

// Admit calls Check before a new document. The first document waits a moment for MH's time and the chain's store.
func (g *Gate) Admit() error {
	g.clock.AwaitFirst()
	if g.Fence != nil {
		g.Fence.Await(time.Now())
	}
	if err := g.Check(); err != nil {
		return err
	}
	g.clock.Admitted()
	return nil
}

// tendEvery is how often disk and clock are checked, even without sales.
const tendEvery = 2 * time.Second

// Run maintains the ballast. At the start and while the clock is in doubt or disputed, it asks MH for the time: sales
// do not always bring MH's time then. The request contains no credentials and no document.
func (g *Gate) Run(ctx context.Context) error {
	var asked time.Time
	for {
		g.disk.tend()
		_ = g.disk.check()
		if asked.IsZero() || (g.clock.Check() != nil || g.clock.IsDisputed()) && time.Since(asked) >= askEvery {
			asked = time.Now()
			ask(connpool.Patient(ctx), http.MethodGet, g.authority, g) // RoundTrip gives the clock the answer's date
			if g.archive != "" && g.clock.IsDisputed() {
				g.clock.Second(ask(ctx, http.MethodHead, g.archive, g.second))
			}
			g.clock.Answered()
		}
		if fairqueue.Sleep(ctx, tendEvery) != nil {
			return nil
		}
	}
}

// askEvery is the least time between two requests for MH's time, and how long each may take.
const askEvery = 5 * time.Second

// ask returns the Date header of a server's answer, or "" without an answer.
func ask(ctx context.Context, method, url string, way http.RoundTripper) (date string) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return ""
	}
	req.Header.Set("User-Agent", "dtegate")
	resp, err := way.RoundTrip(req)
	if err != nil {
		return ""
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<16) // a connection is reused only after its answer was read to the end
	_ = resp.Body.Close()
	return resp.Header.Get("Date")
}

func (g *Gate) Collect(ch chan<- prometheus.Metric) {
	gauge := func(name, help string, value any) { record.SendGauge(ch, name, help, value) }
	doubted, skew, known := g.clock.State()
	gauge("dte_clock_doubted", "1 while the clock counts as wrong and nothing new is issued.", doubted)
	if known {
		gauge("dte_clock_skew_seconds", "The box's clock less MH's, by MH's latest answer; absent before the first.",
			skew.Seconds())
	}
	gauge("dte_store_full", "1 while nothing new is issued because the disk lacks space.", g.disk.check() != nil)
	gauge("dte_store_reserve_bytes", "Free space below which nothing new is issued.", int(g.disk.reserve))
}

// personRetry is how long a till waits before it tries again if a person has to decide.
const personRetry = time.Minute

// checkBehind returns nil while no other medium of the box knows a document that the store lacks. Otherwise the store
// would use the missing documents' numbers again.
func checkBehind(list []storage.Witness) error {
	if len(list) == 0 {
		return nil
	}
	english := make([]string, len(list))
	var series []string
	for i := range list {
		english[i] = list[i].String()
		for _, l := range list[i].Series {
			series = append(series, fmt.Sprintf("%s hasta el %d, aquí el %d", l.Series, l.There, l.Here))
		}
	}
	return &refusal.Error{Code: refusal.CodeStoreBehind, RetryAfter: personRetry,
		English: "Nothing is numbered before dtectl recover: " + strings.Join(english, "; "),
		Message: "Otro medio del equipo conoce documentos que faltan en su base (" +
			strings.Join(series[:min(3, len(series))], "; ") + "): no se emiten documentos nuevos hasta que soporte " +
			"los concilie con dtectl recover"}
}

// CheckEnrolled returns nil if this box is enrolled for its branch and not replaced. It also refuses a box that took no
// point of sale because its store lacks numbers.
func CheckEnrolled(s fleet.Standing) *refusal.Error {
	switch {
	case s.Cloned:
		return &refusal.Error{Code: refusal.CodeBoxReplaced, RetryAfter: personRetry, English: "Another copy of this " +
			"box runs, or this is an old image of it, or its store was recovered too low: nothing is numbered here " +
			"until it is recovered and has another key",
			Message: "Hay otra copia de este equipo, o este es una imagen vieja: no emite documentos; avise a soporte"}
	case s.Replaced && s.Epoch == 0:
		return &refusal.Error{Code: refusal.CodeBoxReplaced, RetryAfter: personRetry,
			English: fmt.Sprintf("Another box has this branch (epoch %d), and this box was never enrolled: nothing is "+
				"numbered here", s.Highest),
			Message: "Otro equipo tiene esta sucursal, y este no está inscrito: no emite documentos; avise a soporte"}
	case s.Replaced: // even if this box's key has the highest epoch again
		return &refusal.Error{Code: refusal.CodeBoxReplaced, RetryAfter: personRetry,
			English: fmt.Sprintf("Another box took this branch after epoch %d of this box: nothing is numbered here "+
				"until this box is recovered and has another key", s.Epoch),
			Message: "Otro equipo tomó esta sucursal, y este ya no emite documentos; avise a soporte"}
	case s.Behind != "" && len(s.Points) == 0:
		return branchBehind(s)
	case s.Epoch == 0:
		return &refusal.Error{Code: refusal.CodeNotEnrolled, RetryAfter: personRetry,
			English: "The chain's centre has not enrolled this box: nothing is numbered here",
			Message: "La central no ha inscrito este equipo: no emite documentos; avise a soporte"}
	}
	return nil
}

func branchBehind(s fleet.Standing) *refusal.Error {
	return &refusal.Error{Code: refusal.CodeStoreBehind, RetryAfter: personRetry, English: s.Behind,
		Message: "A este equipo le faltan documentos de la sucursal: no emite documentos; avise a soporte"}
}

// CheckPoint returns nil if the box may number at a point of sale: it has taken the point from its enrolment, and the
// centre has not closed the point for the year. In the first 15 minutes of a year both years count, because a document
// may bear MH's time (see engine's dated).
func CheckPoint(a *fleet.Agent, at record.Point, now time.Time) error {
	if a == nil {
		return nil
	}
	point := fleetproto.Point{Establishment: at.Establishment, Point: at.PointOfSale}
	year := dte.Year(now.Add(-15 * time.Minute))
	if !a.Closed(point, year) {
		year = dte.Year(now)
	}
	switch s := a.Fence().Standing(); {
	case !s.Numbers(point) && s.Behind != "":
		return branchBehind(s)
	case !s.Numbers(point):
		return &refusal.Error{Code: refusal.CodeNotEnrolled, RetryAfter: personRetry, English: fmt.Sprintf(
			"The enrolment of this box does not name point of sale %s%s: nothing is numbered there", at.Establishment,
			at.PointOfSale),
			Message: fmt.Sprintf("La central no ha inscrito el punto de venta %s%s en este equipo: avise a soporte",
				at.Establishment, at.PointOfSale)}
	case a.Closed(point, year):
		return &refusal.Error{Code: refusal.CodePointClosed, RetryAfter: personRetry,
			English: fmt.Sprintf("The chain's centre has closed point of sale %s%s for %d: nothing is numbered there",
				at.Establishment, at.PointOfSale, year),
			Message: fmt.Sprintf("La central cerró el punto de venta %s%s por el año %d: avise a soporte",
				at.Establishment, at.PointOfSale, year)}
	}
	return nil
}
