package hostility

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Step is one change of the hostilities in a schedule.
type Step struct {
	After  time.Duration // since the schedule began
	Change func(*Chaos)
}

// plan is a schedule in force.
type plan struct {
	steps []Step
	every time.Duration
	timer *time.Timer
}

// errReplaced ends the steps of a schedule after another schedule has replaced it.
var errReplaced = errors.New("the schedule was replaced")

// Schedule changes the hostilities at the given times from now on, by the process's clock. A round of steps repeats
// after every, unless that is zero. Schedule ends the schedule in force, as do Reset and the end of Serve. It fails if
// a step is not valid, a time is negative, or every is not later than the last step.
func (s *Hostility) Schedule(every time.Duration, steps ...Step) error {
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.After, b.After) })
	for _, step := range steps {
		trial := Calm()
		step.Change(&trial)
		if err := trial.Check(); err != nil {
			return fmt.Errorf("step at %v: %w", step.After, err)
		}
	}
	if len(steps) > 0 && (steps[0].After < 0 || every != 0 && every <= steps[len(steps)-1].After) {
		return errors.New("a step is before the beginning of the schedule, or not before its end")
	}
	p := &plan{steps: steps, every: every}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan != nil && s.plan.timer != nil {
		s.plan.timer.Stop()
	}
	s.plan = p
	s.arm(p, 0, 0)
	return nil
}

// arm starts the timer of the n-th step; done is the part of the round that has passed. The caller holds mu.
func (s *Hostility) arm(p *plan, n int, done time.Duration) {
	if n == len(p.steps) {
		if n == 0 || p.every == 0 {
			return
		}
		n, done = 0, done-p.every
	}
	p.timer = time.AfterFunc(p.steps[n].After-done, func() { s.perform(p, n) })
}

func (s *Hostility) perform(p *plan, n int) {
	err := s.Alter(func(c *Chaos) error {
		if s.plan != p {
			return errReplaced
		}
		p.steps[n].Change(c)
		s.arm(p, n+1, p.steps[n].After)
		return nil
	})
	if err != nil && !errors.Is(err, errReplaced) {
		s.log.Error("schedule", "step", p.steps[n].After, "error", err)
	}
}
