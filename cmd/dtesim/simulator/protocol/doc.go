// Package protocol is MH's HTTP interface: the envelopes of its services, their answers, and the login. What it
// receives is judged by package registry.
package protocol
