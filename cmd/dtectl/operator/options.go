// Package operator is what the verbs of dtectl share: the flags of every verb, who asks and which files he named, and the running
// appliance that a verb asks.
package operator

// Options are the flags of every verb.
type Options struct {
	Config string `short:"c" default:"/etc/dted/dted.toml" env:"DTED_CONFIG" help:"The appliance's configuration."`
}
