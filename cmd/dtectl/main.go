// Command dtectl is the operator's tool of the DTE gateway.
package main

import (
	"context"
	"embed"
	"errors"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/template"

	"github.com/alecthomas/kong"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/bundles"
	"dtegate/cmd/dtectl/demo"
	"dtegate/cmd/dtectl/disk"
	"dtegate/cmd/dtectl/doctor"
	"dtegate/cmd/dtectl/fleet"
	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/cmd/version"
	"dtegate/engine/record"
	"dtegate/plugins"
)

type cli struct {
	Version kong.VersionFlag `help:"Print the version of the package and end."`
	adminclient.Options

	Init        setup.Init         `cmd:"" help:"Seal the signing key and create the store, once."`
	Queue       queueCommand       `cmd:"" help:"Show what the branch owes MH, and by when."`
	Contingency contingencyCommand `cmd:"" help:"Declare a contingency, or take the declaration back."`
	Token       setup.Token        `cmd:"" help:"Make, list, rotate and revoke the tills' tokens."`
	TLS         setup.TLS          `cmd:"" name:"tls" help:"The box's own certificate authority, which tills trust."`
	Audit       disk.Audit         `cmd:"" help:"Show who did what to the branch, when, and with what outcome."`
	Fsck        disk.Fsck          `cmd:"" help:"Check the whole store of a stopped appliance, or the archive."`
	Delivery    deliveryCommand    `cmd:"" help:"List, retry and forget deliveries that were given up."`
	Invalidate  invalidateCommand  `cmd:"" help:"Invalidate the documents of a list, at MH's pace."`
	Rules       bundles.Command    `cmd:"" help:"Make, test, sign, push and take back tax rules."`
	Backup      disk.Backup        `cmd:"" help:"Make a verified copy of the store."`
	Recover     disk.Recover       `cmd:"" help:"Make a stopped appliance's store whole again from every medium."`
	Clock       disk.Clock         `cmd:"" help:"Accept the box's clock when MH cannot confirm it."`
	Doctor      doctor.Command     `cmd:"" help:"Check everything that a branch needs, and say what to do."`
	Books       booksCommand       `cmd:"" help:"Make the accountant's files of a month: F-07, VAT books, F-930."`
	Certify     certifyCommand     `cmd:"" help:"Send MH the tests that it requires of a new issuer."`
	Fleet       fleet.Command      `cmd:"" help:"Central IT's side of a chain: roll out rules, see every branch."`
	Completion  completionCommand  `cmd:"" help:"Print a completion: source <(dtectl completion bash)."`
	Demo        demo.Command       `cmd:"" help:"Run the appliance against the simulated authority."`
}

func main() {
	var c cli
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	k := parser(ctx, &c)
	err := run(&c, k)
	stop()
	k.FatalIfErrorf(err)
}

func run(c *cli, k *kong.Kong) error {
	config.KeepPrivate()
	if err := record.Learn(plugins.Types()...); err != nil {
		return err
	}
	log.SetOutput(term.Err)
	slog.SetDefault(slog.New(slog.NewTextHandler(term.Err, nil))) // this handler writes times with their zone
	command, err := k.Parse(os.Args[1:])
	if err != nil {
		return err // kong shows the usage with its own error
	}
	if err = becomeAccount(c.Config, command); err == nil {
		err = unreachable(command.Run(&c.Options))
	}
	if err != nil {
		return shownError{err}
	}
	return nil
}

func parser(ctx context.Context, c *cli) *kong.Kong {
	return kong.Must(c, kong.Name("dtectl"), kong.Description("The operator's tool of the DTE edge gateway."),
		kong.UsageOnError(), kong.Vars{"version": version.String(),
			"permissions": strings.Join(config.Permissions, ", "), "selling": setup.Selling},
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Writers(term.Out, term.Err),
		kong.BindToProvider(func() (*config.Config, error) { return config.Load(c.Config) }))
}

// shownError prints an error without control sequences for the terminal, each line after the first indented.
type shownError struct{ error }

func (e shownError) Error() string { return term.Lines(e.error.Error()) }
func (e shownError) Unwrap() error { return e.error }

// ExitCode returns the verb's own exit status, else 6 if there was no connection, else 1.
func (e shownError) ExitCode() int {
	var own kong.ExitCoder // errors.AsType requires an error type, and kong.ExitCoder is not one
	if errors.As(e.error, &own) {
		return own.ExitCode()
	}
	if _, dial := errors.AsType[*net.OpError](e.error); dial {
		return 6
	}
	return 1
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completions are templates of the shells' scripts. A script finds the verb on the command line, and offers the words,
// or else the files, that may follow it.
//
//go:embed completion.*
var completions embed.FS

// Run prints the shell's script, filled in with the verbs and flags that the parser knows.
func (c *completionCommand) Run(k *kong.Context) error {
	script, err := template.ParseFS(completions, "completion."+c.Shell)
	if err != nil {
		return err
	}
	return script.Execute(term.Out, describeVerbs(k.Model.Node, ""))
}

type described struct{ Verb, Words string }

func describeVerbs(n *kong.Node, verb string) []described {
	var words []string
	for _, c := range n.Children {
		words = append(words, c.Name)
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			words = append(words, "--"+f.Name)
		}
	}
	list := []described{{verb, strings.Join(words, " ")}}
	for _, c := range n.Children {
		list = append(list, describeVerbs(c, strings.TrimSpace(verb+" "+c.Name))...)
	}
	return list
}
