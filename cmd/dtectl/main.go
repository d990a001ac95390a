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
	Rules       rulesCommand       `cmd:"" help:"Make, test, sign, push and take back tax rules."`
	Backup      backupCommand      `cmd:"" help:"Make a verified copy of the store."`
	Restore     restoreCommand     `cmd:"" help:"Make a store from a backup; it must be reconciled before it issues."`
	Rebuild     rebuildCommand     `cmd:"" help:"Make a store from the second copy of a dead box; it must be reconciled before it issues."`
	Reconcile   reconcileCommand   `cmd:"" help:"Reconcile a restored store with the high-water mark."`
	Doctor      doctorCommand      `cmd:"" help:"Check everything that a branch needs, and say what to do."`
	Export      exportCommand      `cmd:"" help:"Write the documents of a period as CSV or JSON."`
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
