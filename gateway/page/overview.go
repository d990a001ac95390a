// Package page makes the pages that people read: the status of the branch, for the people in the shop, and the reference of
// the API. It knows no HTTP, and escapes every text.
package page

import (
	_ "embed"
	"errors"
	"time"

	"dtegate/engine"
	"dtegate/engine/authorisation"
	"dtegate/engine/register"
	"dtegate/engine/shelf"
)

// Overview is what the status page shows. It holds no secret and no customer. A time is zero if it is not known.
type Overview struct {
	At, Started time.Time
	Version     string
	Ambiente    string // CAT-001
	Branch      int64
	Name        string // what people call the store; "": its number
	// Stopped is why nothing new is issued, nil when the branch issues.
	Stopped error
	MH      Reach
	Owed    *engine.Backlog
	Today   register.Today
	// Authorisation is nil outside of the test ambiente.
	Authorisation *authorisation.Progress
	Rules         *shelf.Listing
	// Month is nil while it is counted for the first time.
	Month *Month
	// SecondCopy is nil when none is configured; Mail and Archive are false then.
	SecondCopy    *SecondCopy
	Mail, Archive bool
	// Chain is nil where the branch is of no chain.
	Chain *Chain
	// Free and Reserve are bytes of the store's disk; below Reserve nothing is issued.
	Free, Reserve int64
	// Skew is the box's clock less MH's, nil before MH's first answer.
	Skew    *time.Duration
	Expires []Expiry
	Trouble []Trouble // the newest first
}

// Reach is whether MH answered the last call.
type Reach struct {
	Asked bool // there was a call
	Up    bool
	Since time.Time // it has been so
	Last  time.Time // the last answer
	Why   string    // it is not up
}

// Chain is the state of the box's connection to the chain's centre.
type Chain struct {
	Branch   string
	Version  int64     // of the desired state
	Asked    time.Time // when the chain's store last answered; zero: not since the start
	Trouble  string    // empty: none
	Replaced bool      // another box has the branch
}

// SecondCopy is the state of the second copy.
type SecondCopy struct {
	Live  bool
	Since time.Time
	Why   string
}

// Expiry is a certificate that ends: signing, MH's for the key; api or ops, of a listener; or ca, the box's own authority.
type Expiry struct {
	Name string
	At   time.Time
}

// Trouble is a warning or an error of the log, with the number of times that it was logged.
type Trouble struct {
	At    time.Time
	Error bool // else a warning
	// Message is the line's constant part, Text the whole line with its attributes.
	Message, Text string
	Count         int
}

// ErrNoRules means that the branch has no rule that is valid today.
var ErrNoRules = errors.New("no rule is valid today")
