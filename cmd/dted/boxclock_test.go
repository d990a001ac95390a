package main

import (
	"testing"

	"dtegate/cmd/cmdtest"
)

// boxClock lists where dted means the box's clock, by file and function, and why. All other code reads the branch's
// clock, config.Now: in a rehearsal of a later day the two differ.
var boxClock = map[string]string{
	"access/certificates.go lookAtCertificates": "a certificate of TLS ends by the clock of those who connect",
	"access/certificates.go renew":              "a certificate of TLS ends by the clock of those who connect",
	"health/clock/clock.go New":                 "the time that passes, which no setting of a clock alters",
	"health/disk.go newDisk":                    "how long ago the disk was asked",
	"health/gate.go Admit":                      "the chain's agent notes by the box's clock in which year it asked: see joinChain",
	"health/gate.go Run":                        "how long ago MH was asked for the time",
	"health/watchdog.go Run":                    "how long a start takes",
	"config/inputs.go BoxAuthority":             "a certificate of TLS ends by the clock of those who connect",
	"config/check.go Now":                       "the branch's clock is made of it",
	"fleet.go joinChain": "the centre compares with its own clock what a box says and when a piece was shipped, and " +
		"directors' orders end by it",
	"background.go newWitness": "how long a sale waits",
}

// TestBranchClock: code that reads a clock reads the branch's clock, or is in the list with its reason. A clock that is
// passed on (Now: time.Now) counts too.
func TestBranchClock(t *testing.T) { cmdtest.BoxClock(t, boxClock) }
