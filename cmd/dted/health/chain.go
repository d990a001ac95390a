package health

import (
	"fmt"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
)

// chainRetry is how long a till waits that the chain's centre turns away: a person has to decide.
const chainRetry = time.Minute

// checkEnrolled is nil while the branch is this box's.
func checkEnrolled(f *fleet.Fence) error {
	if f == nil {
		return nil
	}
	switch s := f.Standing(); {
	case s.Replaced:
		return &refusal.Error{Code: refusal.CodeBoxReplaced, RetryAfter: chainRetry,
			English: fmt.Sprintf("Another box has this branch since %s (epoch %d): nothing is numbered here any more", s.Since.Format(time.RFC3339), s.Highest),
			Message: fmt.Sprintf("Otro equipo tiene esta sucursal desde el %s: este ya no emite documentos; avise a soporte", s.Since.In(dte.Zone).Format("02/01/2006 15:04"))}
	case s.Epoch == 0:
		return &refusal.Error{Code: refusal.CodeNotEnrolled, RetryAfter: chainRetry,
			English: "The chain's centre has not enrolled this box: nothing is numbered here",
			Message: "La central no ha inscrito este equipo: no emite documentos; avise a soporte"}
	}
	return nil
}

// CheckPoint is nil while this box may number a point of sale: its enrolment names it, and the centre has not closed it for the year.
func CheckPoint(a *fleet.Agent, at seller.Point, now time.Time) error {
	if a == nil {
		return nil
	}
	point := fleetproto.Point{Establishment: at.Establishment, Point: at.PointOfSale}
	switch {
	case !a.Fence().Standing().Numbers(point):
		return &refusal.Error{Code: refusal.CodeNotEnrolled, RetryAfter: chainRetry,
			English: fmt.Sprintf("The enrolment of this box does not name point of sale %s%s: nothing is numbered there", at.Establishment, at.PointOfSale),
			Message: fmt.Sprintf("La central no ha inscrito el punto de venta %s%s en este equipo: avise a soporte", at.Establishment, at.PointOfSale)}
	case a.Closed(point, dte.Year(now)):
		return &refusal.Error{Code: refusal.CodePointClosed, RetryAfter: chainRetry,
			English: fmt.Sprintf("The chain's centre has closed point of sale %s%s for %d: nothing is numbered there", at.Establishment, at.PointOfSale, dte.Year(now)),
			Message: fmt.Sprintf("La central cerró el punto de venta %s%s por el año %d: avise a soporte", at.Establishment, at.PointOfSale, dte.Year(now))}
	}
	return nil
}
