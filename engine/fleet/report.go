package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

func (a *Agent) Status() fleetproto.Status {
	var s fleetproto.Status
	if a.o.Describe != nil {
		a.o.Describe(&s)
	}
	last, err := a.o.Last()
	if err != nil {
		a.o.Logger.Error("reading the last numbers for the status", "error", err)
	}
	standing := a.fence.Standing()
	trouble := a.trouble("status")
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Branch, s.Group, s.Points = a.o.Branch, a.o.Group, a.o.Points
	s.Epoch, s.Replaced, s.Key = standing.Epoch, standing.Replaced, fleetproto.EncodeKey(a.public())
	s.At, s.Sequence, s.Acts, s.Settings = a.o.Now().UTC(), a.state.Sequence, a.state.Act, a.state.Settings
	a.reported = highest(a.reported, last)
	s.Last = maps.Clone(a.reported)
	since := strconv.Itoa(dte.Year(a.o.Now().AddDate(0, -1, 0))) // this year; in January also last year
	maps.DeleteFunc(s.Last, func(series string, _ uint64) bool { return yearOf(series) < since })
	s.Desired = fleetproto.Reached{Version: a.state.Version, Digest: a.state.Digest, At: a.asked.UTC(),
		Trouble: trouble, Expires: cmp.Or(a.desired, new(fleetproto.Desired)).Expires}
	s.Rollout, s.Rules = a.progress(), nil
	for _, b := range a.o.Rules.Bundles() {
		if b.inForce() {
			s.Rules = append(s.Rules, fleetproto.Running{Digest: b.Digest, Name: b.Name, Version: b.Version,
				Bundle: b.Kind, Document: b.Document, Schema: b.Schema, From: b.From, Live: b.Where == Live,
				Outcomes: b.Outcomes})
		}
	}
	return s
}

// Look is what people at the box see about the chain.
type Look struct {
	Standing Standing
	Unbound  []fleetproto.Point // this box's points of sale that it may not number
	Version  int64              // of the desired state
	Asked    time.Time          // when the store last answered; zero: not since the start
	Trouble  string             // the current errors, or ""
	Refused  bool               // part of Trouble: the store refuses this box's account, or is full
}

// Look returns the present state of the chain.
func (a *Agent) Look() Look {
	l := Look{Standing: a.fence.Standing(), Trouble: a.trouble("")}
	l.Unbound = slices.DeleteFunc(slices.Clone(a.o.Points), l.Standing.Numbers)
	a.mu.Lock()
	defer a.mu.Unlock()
	l.Version, l.Asked = a.state.Version, a.asked
	for _, err := range a.troubles {
		l.Refused = l.Refused || archive.Refuses(err)
	}
	return l
}

func (a *Agent) sendStatus(ctx context.Context) error {
	if !a.recalled || a.fence.Standing().Replaced { // a copy of this box may have written the status since
		if err := a.recall(ctx); err != nil && !errors.Is(err, errBehind) {
			return err
		}
	}
	// Save the number first: no two statuses of this box may have the same number.
	if err := a.change(func(s *state) { s.Sequence++ }); err != nil {
		return err
	}
	status := a.Status()
	data, err := a.o.Chain.Seal(&status, a.o.Box)
	if err != nil {
		return fmt.Errorf("the status cannot be written: %w", err)
	}
	err = a.ask(ctx, "put", askFor, func(ctx context.Context) error {
		return a.o.Store.Overwrite(ctx, fleetproto.StatusKey(a.o.Branch, status.Epoch), data)
	})
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	a.dirty = false
	a.metrics.reported.Set(float64(a.o.Now().Unix()))
	return nil
}

// highest returns the highest number of each series in the lists.
func highest(lists ...map[string]uint64) map[string]uint64 {
	all := make(map[string]uint64)
	for _, list := range lists {
		for series, number := range list {
			all[series] = max(all[series], number)
		}
	}
	return all
}

// lastStatus returns the last status of an epoch, and whether Stolen is set in the epoch's enrolment. The status is
// nil if neither this box nor the box of the enrolment signed it.
func (a *Agent) lastStatus(ctx context.Context, epoch int64) (last *fleetproto.Status, stolen bool, err error) {
	keys, object := []fleetproto.Key{fleetproto.Public(a.o.Box)}, []byte(nil)
	if epoch > 0 { // before it is enrolled, a box reports as epoch 0
		object, err = a.read(ctx, fleetproto.BoxKey(a.o.Branch, epoch))
		if box, bad := a.openEnrolment(object, epoch); err == nil && bad == nil {
			stolen, keys = box.Stolen, append(keys, box.BoxKeyOf())
		}
	}
	if err == nil {
		object, err = a.read(ctx, fleetproto.StatusKey(a.o.Branch, epoch))
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the status of epoch %d: %w", epoch, err)
	}
	last, _ = a.o.Chain.OpenStatus(object, a.o.Branch, epoch, keys...)
	return last, stolen, nil
}

// recall takes from the branch's last status the numbers after which this box's acts and statuses continue, if the box
// starts, begins an epoch or lost its state. If this box's key signed that status, and the box's store lacks numbers
// that the status names, recall closes the fence: the box is an old image or a copy, or its store was made again and
// ends too low. The box's statuses keep the higher numbers for the next box. Statuses from before an enrolment with
// Stolen do not count.
func (a *Agent) recall(ctx context.Context) error {
	var last *fleetproto.Status
	for epoch, stolen := a.state.Enrolled.Own, false; epoch >= 0 && last == nil && !stolen; epoch-- {
		var err error
		if last, stolen, err = a.lastStatus(ctx, epoch); err != nil {
			return err
		}
	}
	if last == nil {
		a.recalled = true
		return nil
	}
	own, image, unread := last.Key == fleetproto.EncodeKey(a.public()), error(nil), error(nil)
	if own {
		a.mu.Lock()
		a.reported = highest(a.reported, last.Last) // also if the store cannot be read, for the next box
		a.mu.Unlock()
		var numbers map[string]uint64
		if numbers, unread = a.o.Last(); unread == nil {
			for _, p := range a.o.Points {
				image = cmp.Or(image, a.lacks(numbers, last.Last, &a.state.Enrolled, p))
			}
		}
		if image != nil {
			a.fence.Close()
		}
	}
	act := a.state.Act
	if last.Acts > act {
		if _, err := a.get(ctx, fleetproto.ActKey(a.o.Branch, last.Acts), fleetproto.MaxJWS); err == nil {
			act = last.Acts
		}
	}
	err := a.change(func(s *state) {
		if s.Act = act; own {
			s.Sequence = max(s.Sequence, last.Sequence)
		}
	})
	a.recalled = cmp.Or(err, image, unread) == nil
	return cmp.Or(err, image)
}

// maxActs is how many unsent acts are kept: the latest acts.
const maxActs = 1000

func (a *Agent) queueAct(s *state, act fleetproto.Act) {
	act.At, act.Branch = a.o.Now().UTC(), a.o.Branch
	if s.Acts = append(s.Acts, act); len(s.Acts) > maxActs {
		s.Acts = s.Acts[len(s.Acts)-maxActs:]
	}
}

// sendActs writes the unsent acts in their order. An act always has the same signed bytes, by which the box recognises
// an earlier attempt whose answer was lost. If the store has other bytes under the number, another box wrote them: the
// act gets the next number.
func (a *Agent) sendActs(ctx context.Context) error {
	end := a.o.Now().Add(fetchFor)
	// a hostile store may have another act at every number
	for foreign := 0; len(a.state.Acts) > 0 && foreign < maxActs && a.o.Now().Before(end); {
		act := a.state.Acts[0]
		act.Number, act.Epoch = a.state.Act+1, a.state.Enrolled.Own
		data, err := a.o.Chain.Seal(&act, a.o.Box)
		if err != nil {
			return fmt.Errorf("an act cannot be written: %w", err)
		}
		key := fleetproto.ActKey(a.o.Branch, act.Number)
		err = a.ask(ctx, "create", askFor, func(ctx context.Context) error { return a.o.Store.Create(ctx, key, data) })
		mine := err == nil
		if errors.Is(err, archive.ErrExists) {
			held, e := a.get(ctx, key, fleetproto.MaxJWS)
			if e != nil && !useless(e) {
				return fmt.Errorf("reading act %d: %w", act.Number, e)
			}
			mine, err = bytes.Equal(held.Data, data), nil
		}
		if err != nil {
			return fmt.Errorf("writing act %d: %w", act.Number, err)
		}
		if err := a.change(func(s *state) {
			s.Act = act.Number
			if mine {
				s.Acts = s.Acts[1:]
			}
		}); err != nil {
			return err
		}
		if !mine {
			foreign++
		}
	}
	return nil
}

type metrics struct {
	requests *prometheus.CounterVec
	reported prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_fleet_requests_total",
			Help: "Requests to the chain's object store, by verb and result: ok (an answer, also that nothing is " +
				"there), failed."}, []string{"verb", "result"}),
		reported: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_fleet_reported_timestamp_seconds",
			Help: "When the branch's status was last written to the store; 0: not since the start."}),
	}
	for _, verb := range []string{"get", "create", "put"} {
		for _, result := range []string{"ok", "failed"} {
			m.requests.WithLabelValues(verb, result)
		}
	}
	return m
}

func (m *metrics) count(verb string, err error) {
	result := "ok"
	if err != nil && !errors.Is(err, archive.ErrNotFound) && !errors.Is(err, archive.ErrExists) &&
		!errors.Is(err, archive.ErrTooLarge) {
		result = "failed"
	}
	m.requests.WithLabelValues(verb, result).Inc()
}

// Collect is a prometheus.CollectorFunc.
func (a *Agent) Collect(ch chan<- prometheus.Metric) {
	a.metrics.requests.Collect(ch)
	a.metrics.reported.Collect(ch)
	l, closed := a.Look(), 0
	for _, p := range a.o.Points {
		if !l.Standing.Numbers(p) || a.Closed(p, dte.Year(a.o.Now())) {
			closed++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	seconds := func(t time.Time) float64 { return float64(max(0, t.Unix())) } // the zero time is before 1970
	flag := map[bool]float64{true: 1}
	gauge := func(name, help string, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, v)
	}
	gauge("dte_fleet_desired_version",
		"The last version of the group's desired state that this box has verified; 0: none.", float64(l.Version))
	gauge("dte_fleet_desired_expiry_timestamp_seconds", "When that version expires; 0: there is none.",
		seconds(cmp.Or(a.desired, new(fleetproto.Desired)).Expires))
	gauge("dte_fleet_asked_timestamp_seconds",
		"When the store last answered about the desired state; 0: not since the start.", seconds(l.Asked))
	gauge("dte_fleet_trouble",
		"1 while the box does not apply the desired state, or cannot reach the store; the log says why.",
		flag[l.Trouble != ""])
	gauge("dte_fleet_acts_waiting", "Acts that are not in the store yet.", float64(len(a.state.Acts)))
	gauge("dte_fleet_closed_points", "Points of sale of this box that number nothing: the centre has closed them for "+
		"this year, or its enrolment does not name them.", float64(closed))
	gauge("dte_fleet_replaced", "1 while another box has or had the branch, or a copy of this box runs: BOX_REPLACED.",
		flag[l.Standing.Replaced])
	gauge("dte_fleet_epoch", "The epoch at which this box is enrolled; 0: it is not.", float64(l.Standing.Epoch))
	if p := a.progress(); p != nil {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("dte_fleet_rollout_stage",
			"1 for the stage of the desired state's roll-out here: outside, waiting, admitted, live, refused, "+
				"returned; absent without one.", []string{"stage"}, nil), prometheus.GaugeValue, 1, string(p.Stage))
	}
}
