package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

type rulesCommand struct {
	Keygen    rulesKeygenCommand    `cmd:"" help:"Make a key that signs rule bundles."`
	New       rulesNewCommand       `cmd:"" help:"Begin a rule as a copy of another one's folder."`
	Test      rulesTestCommand      `cmd:"" help:"Run a rule's golden cases, interpreted and compiled, as a branch does before it trusts them."`
	Build     rulesBuildCommand     `cmd:"" help:"Build and sign a bundle from its source folder."`
	Sign      rulesSignCommand      `cmd:"" help:"Add a signature to a bundle that somebody else has signed."`
	Push      rulesPushCommand      `cmd:"" help:"Send bundles to one branch, or to all of a list: live, or coming from their own day on."`
	Activate  rulesActivateCommand  `cmd:"" help:"Send bundles to this branch."`
	List      rulesListCommand      `cmd:"" help:"List a branch's bundles: live, coming, spare, retired."`
	Status    rulesStatusCommand    `cmd:"" help:"Show what is in force, what ends, and the last automatic return."`
	Backtest  rulesBacktestCommand  `cmd:"" help:"Compute a branch's stored documents again with a bundle, and list the amounts that would differ."`
	Shadow    rulesShadowCommand    `cmd:"" help:"Let a bundle compute live sales beside the active one."`
	Rollback  rulesRollbackCommand  `cmd:"" help:"Go back to a bundle that was live at a branch."`
	Reinstate rulesReinstateCommand `cmd:"" help:"Put a bundle back that the branch left by itself."`
	Replay    rulesReplayCommand    `cmd:"" help:"Compute stored documents again with the bundles that they name, byte for byte."`
}

type rulesKeygenCommand struct {
	Out string `arg:"" help:"Where the private key goes; the public one goes beside it, with .pub."`
}

// Run never writes over a key.
func (c *rulesKeygenCommand) Run() error {
	if _, err := os.Stat(c.Out); err == nil {
		return fmt.Errorf("%s exists", c.Out)
	}
	_, err := rulesKey(c.Out)
	return err
}

// rulesKey makes a signing key, both halves as PEM.
func rulesKey(path string) (ed25519.PrivateKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making rules key: %w", err)
	}
	secret, err := bundle.MarshalPrivate(private)
	if err != nil {
		return nil, err
	}
	open, err := bundle.MarshalPublic(public)
	if err != nil {
		return nil, err
	}
	if err := config.WriteFile(path, secret); err != nil {
		return nil, err
	}
	return private, config.WriteFile(path+".pub", open)
}

type rulesBuildCommand struct {
	Name   string `arg:"" help:"Folder in plugins/."`
	Source string `default:"." type:"existingdir" help:"The checkout that holds plugins/."`
	Key    string `required:"" type:"existingfile" help:"Private key, see rules keygen."`
	KeyID  string `default:"central-it" help:"What the appliances call the key."`
	Out    string `default:"." type:"existingdir" help:"Folder that the bundle goes to."`
}

// Run compiles the module with the Go toolchain, signs the bundle and prints its path.
func (c *rulesBuildCommand) Run(ctx context.Context) error {
	b, err := os.ReadFile(c.Key)
	if err != nil {
		return fmt.Errorf("reading rules key: %w", err)
	}
	private, err := bundle.ParsePrivate(b)
	if err != nil {
		return err
	}
	path, err := buildRule(ctx, c.Source, c.Name, c.Out, bundle.Signer{ID: c.KeyID, Private: private})
	if err != nil {
		return err
	}
	screen.Printf("%s\n", path)
	return nil
}

func buildRule(ctx context.Context, source, name, out string, signer bundle.Signer) (string, error) {
	build := filepath.Join(source, "var", "build")
	if err := os.MkdirAll(build, 0o755); err != nil {
		return "", fmt.Errorf("preparing build folder: %w", err)
	}
	parts, m, err := plugins.Parts(ctx, source, name, build)
	if err != nil {
		return "", err
	}
	data, err := bundle.Write(parts, m, signer)
	if err != nil {
		return "", err
	}
	path := filepath.Join(out, m.Name+"-"+m.Version+bundle.Extension)
	return path, config.WriteFile(path, data)
}
