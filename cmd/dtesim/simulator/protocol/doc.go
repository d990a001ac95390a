// Package protocol is MH's HTTP interface: the envelopes of its services, their answers, and the login. Package
// registry judges what protocol receives.
package protocol
