// Package fleet is central IT's side of a chain: dtectl fleet. It publishes what branches shall run, widens, holds and takes back,
// and reads what they report, all through the chain's object store. There is no server of ours and no database: whatever is
// known is in the store, signed by who said it.
package fleet

// Command is dtectl fleet, one verb a file.
type Command struct {
	Centre string `default:"/etc/dted/fleet.toml" env:"DTECTL_FLEET" type:"path" help:"Central IT's settings: the chain's store, the director's key."`

	Doctor Doctor `cmd:"" help:"Race writers against the store, and name what it does not keep."`
}
