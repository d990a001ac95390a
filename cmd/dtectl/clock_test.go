package main

import (
	"testing"

	"dtegate/cmd/cmdtest"
)

// boxClock lists where the box's clock is meant, by file and function, and why. All other code reads the branch's
// clock, config.Now: in a rehearsal of a later day the two differ.
var boxClock = map[string]string{
	"books.go make":               "the day on which the files are made",
	"books.go open":               "a backup is read, without a configuration",
	"books.go collect":            "a pause",
	"demo/demo.go supervise":      "how long a start takes",
	"doctor/doctor.go Run":        "the box's clock is a field of it: branchNow",
	"doctor/box.go timeSync":      "how long a write takes",
	"doctor/box.go authority":     "how long a connection takes",
	"setup/init.go Run":           "a certificate of MH, before there is a configuration",
	"fleet/doctor.go Run":         "the centre of a chain has no branch",
	"fleet/fleet.go ProvideChain": "the centre of a chain has no branch",
	"fleet/status.go Run":         "how long --wait lasts",
	"invalidate.go one":           "the pace of what is sent",
	"demo/demo.go greet":          "the demonstration's own calendar",
	"demo/new.go makeTaxpayer":    "a certificate of the demonstration",
	"demo/new.go New":             "the demonstration's own calendar",
	"bundles/stored.go progress":  "a share of the work: the branch's clock is not known here",
}

// TestBranchClock: a verb reads the branch's clock, or is in the list with its reason.
func TestBranchClock(t *testing.T) { cmdtest.BoxClock(t, boxClock) }
