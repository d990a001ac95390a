// Package hostility imitates networks and MH's servers at their worst, on request or by the clock: it closes the port,
// loses or delays requests and answers, moves MH's clock. [Chaos] lists every hostility. It also keeps the counters of
// hostilities that other packages carry out: refusals, lost lots.
package hostility
