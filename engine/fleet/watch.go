package fleet

import (
	"maps"
	"slices"

	"dtegate/engine/fleet/wire"
)

// watch compares the shelf with what the centre was told last, and tells what is new: that a bundle is on the shelf, that it is
// in force, that the branch has left it by itself. It asks the shelf, therefore nothing is missed that happened while the agent
// stood still or had crashed.
func (f *follower) watch(d *wire.Desired) error {
	shelf := f.o.Rules.Bundles()
	var acts []wire.Act
	told := maps.Clone(f.state.Told)
	stage, reason := f.state.Taken.stage(shelf)
	for i := range shelf {
		b := &shelf[i]
		digest := b.Digest
		if _, own := told[digest]; !own {
			continue
		}
		if f.state.Taken.has(digest) && (stage == wire.StageWaiting || stage == wire.StageRefused && b.inForce()) {
			continue // the roll-out may yet be refused as a whole, or was
		}
		now := reportedAs(b)
		if now == "" || now == told[digest] {
			continue
		}
		if now == wire.ActWithdrawn && told[digest] == "" { // nobody has heard of it
			delete(told, digest)
			continue
		}
		told[digest] = now
		act := wire.Act{What: now, Rule: b.Name + " " + b.Version, Digest: digest, Document: b.Document}
		if d != nil {
			act.Version = d.Version
		}
		if t := f.state.Taken; t != nil && t.has(digest) {
			act.Rollout = t.Rollout
		}
		if b.Where == Retired {
			act.Reason = b.Reason
		}
		acts = append(acts, act)
	}
	if len(told) != len(f.state.Told) || len(acts) > 0 || f.state.Taken != nil && stage != f.state.Taken.Stage {
		err := f.change(func(s *state) {
			s.Told = told
			maps.DeleteFunc(s.Told, func(_, last string) bool {
				return last == wire.ActReturned || last == wire.ActWithdrawn // the last word
			})
			for _, act := range acts {
				f.tell(s, act)
			}
			if s.Taken != nil && stage != s.Taken.Stage {
				s.Taken.Stage, s.Taken.Reason, s.Taken.Since = stage, reason, f.o.Now().UTC()
			}
		})
		if err != nil {
			return err
		}
		f.dirty = true
	}
	f.setProgress(d)
	return nil
}

// reportedAs is what the centre hears of a bundle where it is; "" for nothing.
func reportedAs(b *Bundle) string {
	switch {
	case b.Where == Live:
		return wire.ActLive
	case b.Where == Coming:
		return wire.ActAdmitted
	case b.Where == Retired && b.Off == OffItself:
		return wire.ActReturned
	case b.Where == Retired && b.Off == OffCentre:
		return wire.ActWithdrawn
	}
	return ""
}

func (t *taken) has(digest string) bool {
	return t != nil && slices.ContainsFunc(t.Rules, func(r takenRule) bool { return r.Rule.Digest == digest })
}

// stage is how far a roll-out is in this branch, of the shelf. A refusal and a return are the last word.
func (t *taken) stage(shelf []Bundle) (stage wire.Stage, reason string) {
	if t == nil {
		return "", ""
	}
	if t.Stage.Failed() {
		return t.Stage, t.Reason
	}
	stage = wire.StageLive
	for _, r := range t.Rules {
		b := find(shelf, r.Rule.Digest)
		switch {
		case b == nil || b.Where == Unsound:
			return wire.StageWaiting, ""
		case b.Where == Retired && b.Off == OffItself:
			return wire.StageReturned, b.Reason
		case b.Where == Retired:
			return wire.StageRefused, "it was taken off in the branch: " + b.Reason
		case b.Where == Coming:
			stage = wire.StageAdmitted
		}
	}
	return stage, ""
}

// setProgress keeps what the status says of the roll-out.
func (f *follower) setProgress(d *wire.Desired) {
	var p *wire.Progress
	if d != nil && d.Rollout != nil {
		p = &wire.Progress{Name: d.Rollout.Name, Stage: wire.StageOutside, Since: d.Issued}
		if t := f.state.Taken; t != nil && t.Rollout == d.Rollout.Name {
			p.Stage, p.Since, p.Reason = t.Stage, t.Since, t.Reason
		}
	}
	f.mu.Lock()
	f.progress = p
	f.mu.Unlock()
}
