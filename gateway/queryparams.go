package gateway

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/gateway/problem"
)

// query reads the parameters of a request's query, and collects their faults.
type query struct {
	args   *fasthttp.Args
	faults []dte.Fault
}

func (q *query) fault(name, code, message string) {
	q.faults = append(q.faults, dte.Fault{Path: name, Code: code, Message: message})
}

// err returns a 400 with all faults, nil if there are none.
func (q *query) err() error { return problem.WrongParameters(q.faults) }

func (q *query) text(name string) string { return string(q.args.Peek(name)) }

// day reads a day, yyyy-mm-dd.
func (q *query) day(name, preset string) (day string, at time.Time) {
	if day = q.text(name); day == "" {
		day = preset
	}
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		q.fault(name, dte.FaultFormat, "Debe ser una fecha AAAA-MM-DD")
	}
	return day, at
}

// number reads a whole number from low to high; if the parameter is missing, it returns preset.
func (q *query) number(name string, base int, low, high, preset int64, code, message string) int64 {
	v := q.text(name)
	if v == "" {
		return preset
	}
	n, err := strconv.ParseInt(v, base, 64)
	if err != nil || n < low || n > high {
		q.fault(name, code, message)
	}
	return n
}

// pick reads one of a few words; if the parameter is missing, it returns preset.
func (q *query) pick(name, preset string, of ...string) string {
	v := q.text(name)
	switch {
	case v == "":
		return preset
	case !slices.Contains(of, v):
		q.fault(name, dte.FaultEnum, "Debe ser "+strings.Join(of, ", "))
	}
	return v
}
