package box

import (
	"fmt"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/wire"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
)

// chainRetry is how long a till waits that the chain's centre turns away: a person has to decide.
const chainRetry = time.Minute

// checkReplaced is nil while no other box has the branch.
func checkReplaced(f *fleet.Fence) error {
	if f == nil {
		return nil
	}
	s := f.Standing()
	if !s.Replaced {
		return nil
	}
	return &refusal.Error{Code: refusal.CodeBoxReplaced, RetryAfter: chainRetry,
		English: fmt.Sprintf("Another box has this branch since %s (epoch %d): nothing is numbered here any more", s.Since.Format(time.RFC3339), s.Highest),
		Message: fmt.Sprintf("Otro equipo tiene esta sucursal desde el %s: este ya no emite documentos; avise a soporte", s.Since.In(dte.Zone).Format("02/01/2006 15:04"))}
}

// CheckClosed is nil while the centre has not closed a point of sale for the year.
func CheckClosed(a *fleet.Agent, at seller.Point, now time.Time) error {
	if a == nil || !a.Closed(wire.Point{Establishment: at.Establishment, Point: at.PointOfSale}, dte.Year(now)) {
		return nil
	}
	return &refusal.Error{Code: refusal.CodePointClosed, RetryAfter: chainRetry,
		English: fmt.Sprintf("The chain's centre has closed point of sale %s%s for %d: nothing is numbered there", at.Establishment, at.PointOfSale, dte.Year(now)),
		Message: fmt.Sprintf("La central cerró el punto de venta %s%s por el año %d: avise a soporte", at.Establishment, at.PointOfSale, dte.Year(now))}
}
