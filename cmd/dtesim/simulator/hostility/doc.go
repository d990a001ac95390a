// Package hostility does to a request what networks and MH's servers do at their worst, on request or by the clock: it
// closes the port, loses requests and answers, delays them, moves MH's clock. [Chaos] lists every hostility. It also
// keeps the count of those that the other packages carry out: refusals, lost lots.
package hostility
