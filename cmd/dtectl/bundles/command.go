// Package bundles contains the verbs of dtectl rules, which make, test and sign bundles, and send them to branches.
package bundles

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/rules/bundle"
)

type Command struct {
	Keygen      keygenCommand      `cmd:"" help:"Make a key that signs rule bundles."`
	New         newCommand         `cmd:"" help:"Begin a type of document from MH's schema, or copy a generation."`
	Test        TestCommand        `cmd:"" help:"Run a rule's golden cases as a branch does, in both engines."`
	Build       buildCommand       `cmd:"" help:"Build and sign a bundle from its source folder."`
	Sign        signCommand        `cmd:"" help:"Add a signature to a bundle that somebody else has signed."`
	Push        PushCommand        `cmd:"" help:"Send bundles to branches, and show every step of their admission."`
	List        listCommand        `cmd:"" help:"List a branch's bundles, what ends, and the last automatic return."`
	Backtest    backtestCommand    `cmd:"" help:"List the amounts of stored documents that a bundle would change."`
	Shadow      shadowCommand      `cmd:"" help:"Let a bundle compute live sales beside the active one."`
	Rollback    rollbackCommand    `cmd:"" help:"Go back to a bundle that was live; later bundles go off."`
	Cancel      cancelCommand      `cmd:"" help:"Take off a bundle that has not begun, or a new type's only one."`
	Acknowledge acknowledgeCommand `cmd:"" help:"Agree to a return that the branch made by itself."`
	Reinstate   reinstateCommand   `cmd:"" help:"Undo a return that the branch made by itself."`
	Replay      replayCommand      `cmd:"" help:"Compute stored documents again, and compare every byte."`
	Documents   documentsCommand   `cmd:"" help:"List the documents that one version of a rule computed."`
}

type keygenCommand struct {
	Out string `arg:"" help:"Where the private key goes; the public one goes beside it, with .pub."`
}

// Run never overwrites a key.
func (c *keygenCommand) Run() error {
	if _, err := os.Stat(c.Out); err == nil {
		return fmt.Errorf("%s exists", c.Out)
	}
	_, err := workshop.NewKey(c.Out)
	return err
}

type buildCommand struct {
	Name   string `arg:"" help:"Folder in plugins/, with its generation (NAME/v2) or all of them (NAME)."`
	Source string `default:"." type:"existingdir" help:"The checkout that holds plugins/."`
	Module string `type:"existingfile" placeholder:"FILE.wasm" help:"Compiled module; default: compile rule.go."`
	Key    string `required:"" type:"existingfile" help:"Private key, see rules keygen."`
	KeyID  string `help:"What the appliances call the key; default: as the configuration pins it, else central-it."`
	Out    string `default:"." type:"existingdir" help:"Folder that the bundle goes to."`
}

// Run compiles the module, runs the bundle's golden cases, signs the bundle and prints its path. A bundle that fails
// its cases is not built, because a branch would refuse it.
func (c *buildCommand) Run(ctx context.Context, top *adminclient.Options) error {
	signer, err := signerOf(c.Key, c.KeyID, top)
	if err != nil {
		return err
	}
	w, err := workshop.Open(ctx, c.Source, c.Module)
	if err != nil {
		return err
	}
	defer w.Close(ctx)
	names, err := workshop.Generations(c.Source, c.Name)
	if err != nil {
		return err
	}
	for _, name := range names {
		m, data, err := w.Build(ctx, name, signer)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path := filepath.Join(c.Out, m.Name+"-"+m.Version+bundle.Extension)
		if err := config.WriteFile(path, data); err != nil {
			return err
		}
		term.Printf("%s\n", path)
	}
	return nil
}

// signerOf reads a signing key. If the configuration is readable and pins the key, the signer has the pinned id: a
// branch refuses a signature that names the key by another id.
func signerOf(file, id string, top *adminclient.Options) (s bundle.Signer, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return s, fmt.Errorf("reading rules key: %w", err)
	}
	private, err := bundle.ParsePrivate(b)
	if err != nil {
		return s, err
	}
	pinned := ""
	if cfg, err := config.Load(top.Config); err == nil {
		keys, _ := cfg.Rules.Pinned() // unreadable keys are left out
		for _, k := range keys.Pinned {
			if k.Public.Equal(private.Public()) {
				pinned = k.ID
			}
		}
	}
	if id != "" && pinned != "" && id != pinned {
		return s, fmt.Errorf("--key-id %s: %s pins this key as %q, and a branch would refuse it under another name", id,
			top.Config, pinned)
	}
	return bundle.Signer{ID: cmp.Or(id, pinned, "central-it"), Private: private}, nil
}
