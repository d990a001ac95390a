// Command dtectl is the operator's tool of the DTE gateway, one verb a file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Config string `short:"c" default:"/etc/dted/dted.toml" env:"DTED_CONFIG" help:"The appliance's configuration."`

	Init        initCommand        `cmd:"" help:"Seal the signing key and create the store, once."`
	Queue       queueCommand       `cmd:"" help:"Show what the branch owes MH, and by when."`
	Contingency contingencyCommand `cmd:"" help:"Declare a contingency, or take the declaration back."`
	Token       tokenCommand       `cmd:"" help:"Make and list the tills' tokens."`
	Show        showCommand        `cmd:"" help:"Print a stored document (the appliance must be stopped)."`
	Fsck        fsckCommand        `cmd:"" help:"Check the whole store (the appliance must be stopped)."`
	Rules       rulesCommand       `cmd:"" help:"Make keys for rule bundles, build and inspect them."`
	Demo        demoCommand        `cmd:"" help:"Run the appliance against the simulated authority."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c, kong.Name("dtectl"), kong.Description("The operator's tool of the DTE edge gateway."),
		kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run(&c))
}
