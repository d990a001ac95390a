package fleet

import (
	"context"
	"fmt"
	"time"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/engine/fleet/fleetproto"
)

// FirstDay makes a chain of boxes that have just begun to report, for demonstrations: it waits for so many, enrols
// them, and publishes to all of them what they run. A chain that has had its first day stays as it is.
func FirstDay(ctx context.Context, settings string, who func() string, boxes int, group string, files []string) error {
	top := &Command{Centre: settings, Who: who}
	chain, err := top.open()
	if err != nil {
		return err
	}
	surveyor := controlplane.NewSurveyor(chain)
	for {
		s, err := surveyor.Read(ctx)
		if err == nil && s.Desired(group) != nil {
			return nil
		}
		if err == nil && len(waitingOf(s))+enrolled(s) >= boxes {
			if len(waitingOf(s)) > 0 {
				err = (&Enrol{All: true}).run(ctx, chain)
			}
			if err != nil {
				return err
			}
			break
		}
		select { // the store may still be starting
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	all := controlplane.Percent(fleetproto.Whole)
	if err := (&Publish{Group: group, Files: files, Share: &all, Running: true, MinSuccess: boxes,
		Reason: "what runs already"}).run(ctx, chain); err != nil {
		return fmt.Errorf("publishing what runs already: %w", err)
	}
	return (&Roll{Follow: true}).Run(ctx, top)
}

func enrolled(s *controlplane.Survey) (n int) {
	for _, b := range s.Branches {
		if b.Enrolment != nil {
			n++
		}
	}
	return n
}
