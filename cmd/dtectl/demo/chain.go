package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"dtegate/cmd/dtectl/fleet"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/rules/bundle"
)

// Branches are the names of the branches in a chain's demonstration.
var Branches = []string{"centro", "norte", "sur"}

const (
	demoBucket = "cadena"
	demoAccess = "AKIDCADENA"
	demoChain  = "super-ejemplo"
	demoGroup  = "tiendas"
	demoRule   = "dte01/v2" // engine/fleet/README.md publishes this rule under the next version
)

// chainAddresses is the environment variable with the addresses of the store, the fleet page and the branches.
const chainAddresses = "DTED_CHAIN_ADDRS"

type chainDemo struct {
	dir, shown  string
	store, page string   // addresses of the object store and of the fleet page
	addresses   []string // of the store, the page and the branches
	branches    []*Demo
}

// newChain makes a chain's folder on first use, completely or not at all: a taxpayer with three branches, a director's
// key, a store. Each call writes the configurations again, so that addresses can change.
func newChain(ctx context.Context, dir string) (*chainDemo, error) {
	addresses := strings.Split(cmp.Or(os.Getenv(chainAddresses), "127.0.0.1:8084,127.0.0.1:8090,127.0.0.1:8080,"+
		"127.0.0.1:8081,127.0.0.1:8180,127.0.0.1:8181,127.0.0.1:8280,127.0.0.1:8281"), ",")
	if len(addresses) != 2+2*len(Branches) {
		return nil, errors.New(chainAddresses + ": wants the store's address, the page's, and two of each branch, " +
			"with commas between")
	}
	d := &chainDemo{dir: dir, shown: shown(dir), store: addresses[0], page: addresses[1], addresses: addresses}
	for i, name := range Branches {
		b := newDemo(filepath.Join(dir, name), int64(i+1), addresses[2+2*i], addresses[3+2*i])
		b.copied = "second_copy = \"copy\"      # put it on a second medium; it is shipped to the chain's store, see " +
			"[fleet]\n"
		b.fleet = fmt.Sprintf(`
[fleet]
chain = %q
branch = %q
group = %q
director_key = "../director.pub"
poll = "2s" # the demonstration is quicker than a branch: the defaults are 2m and 15m
report = "1m"
ship = "sync"

[fleet.store]
endpoint = "http://%s"
bucket = %q
access_key = %q
secret_file = "../store.secret"
path_style = true
`, demoChain, name, demoGroup, d.store, demoBucket, demoAccess)
		d.branches = append(d.branches, b)
	}
	if _, err := os.Stat(dir); err == nil {
		if _, err := os.Stat(filepath.Join(dir, "fleet.toml")); err != nil {
			return nil, fmt.Errorf("%s exists and is not a chain's demonstration: remove it or take another", dir)
		}
		return d, d.writeConfigs(dir)
	}
	term.Printf("making a chain of %d branches in %s (once; the rules are compiled)\n", len(d.branches), d.shown)
	return d, makeFolder(dir, func(aside string) error { return d.fill(ctx, aside) })
}

func (d *chainDemo) fill(ctx context.Context, dir string) error {
	first := filepath.Join(dir, Branches[0])
	for _, folder := range []string{"store/" + demoBucket, "side", Branches[0]} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return err
		}
	}
	if err := config.WriteFile(filepath.Join(dir, "store.secret"), []byte(config.Secret()+"\n")); err != nil {
		return err
	}
	if err := (&fleet.Keygen{Name: filepath.Join(dir, "director")}).Run(); err != nil {
		return err
	}
	signer, err := makeTaxpayer(ctx, first)
	if err != nil {
		return err
	}
	_, next, err := build(ctx, demoRule, 1, signer)
	if err == nil {
		err = config.WriteFile(filepath.Join(dir, "next.dterule"), next)
	}
	if err != nil {
		return fmt.Errorf("making the next rule: %w", err)
	}
	for _, name := range Branches[1:] {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(first)); err != nil {
			return err
		}
	}
	if err := d.writeConfigs(dir); err != nil {
		return err
	}
	for i, b := range d.branches {
		if err := b.makeBox(filepath.Join(dir, Branches[i])); err != nil {
			return err
		}
	}
	return nil
}

func (d *chainDemo) writeConfigs(dir string) error {
	err := config.WriteFile(filepath.Join(dir, "fleet.toml"), []byte(fmt.Sprintf(`# Central IT's settings of a chain:
# dtectl fleet --centre FILE, or DTECTL_FLEET. No box has this file.
chain = %q
ambiente = "00"
cache = "fleet-cache"       # copies of the store's objects that never change
rules_threshold = 1

[store]
endpoint = "http://%s"
bucket = %q
access_key = %q
secret_file = "store.secret"
path_style = true

[director]                  # dtectl fleet keygen
public = "director.pub"
key = "director.jwe"        # sealed; status, log and serve do not need it
passphrase_file = "director.passphrase"

[[rules_key]]               # only bundles signed by these keys are published; the boxes pin the same keys
id = "demo"
file = "%s/rules.key.pub"
`, demoChain, d.store, demoBucket, demoAccess, Branches[0])))
	for i, b := range d.branches {
		err = errors.Join(err, b.writeConfig(filepath.Join(dir, Branches[i], "dted.toml")))
	}
	return err
}

// runChain supervises the store, the authority and the branches as separate processes.
func (c *Command) runChain(ctx context.Context) error {
	if c.Store == "" {
		return errors.New("--store: is missing: the program of an object store (make run-fleet builds one)")
	}
	d, err := newChain(ctx, c.Dir)
	if err != nil {
		return fmt.Errorf("preparing %s: %w", c.Dir, err)
	}
	secret, err := config.ReadSecret("store.secret", filepath.Join(c.Dir, "store.secret"))
	if err != nil {
		return err
	}
	places := d.branches[0].simulated()
	for _, address := range d.addresses {
		places = append(places, place{chainAddresses, address})
	}
	if err := awaitFree(ctx, places...); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	g, ctx := errgroup.WithContext(ctx)
	run := func(pid string, start func() *exec.Cmd) { g.Go(func() error { return supervise(ctx, at(pid), start) }) }
	run("store.pid", func() *exec.Cmd {
		cmd := child(c.Store, "--quiet", "--port", d.store, "posix", "--sidecar", at("side"), at("store"))
		cmd.Env = append(cmd.Env, "ROOT_ACCESS_KEY="+demoAccess, "ROOT_SECRET_KEY="+secret) // not on the command line
		return cmd
	})
	run("dtesim.pid", func() *exec.Cmd {
		return command("dtesim", "-issuers", filepath.Join(c.Dir, Branches[0], "issuers.json"))
	})
	g.Go(func() error {
		err := await(ctx, func() error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", d.store)
			if err != nil {
				return err
			}
			return c.Close()
		})
		if err != nil {
			return err
		}
		for i, b := range d.branches {
			run(filepath.Join(Branches[i], "dted.pid"), func() *exec.Cmd {
				return command("dted", "-config", b.Config)
			})
		}
		rules, err := filepath.Glob(filepath.Join(c.Dir, Branches[0], "rules", "*"+bundle.Extension))
		if err != nil {
			return err
		}
		if err := fleet.FirstDay(ctx, at("fleet.toml"), len(d.branches), demoGroup, rules); err != nil {
			return fmt.Errorf("the chain's first day: %w", err)
		}
		for _, b := range d.branches { // branches sell once they are enrolled
			if err := Await(ctx, "http://"+b.Ops+"/readyz"); err != nil {
				return err
			}
		}
		return d.greet()
	})
	return ended(g.Wait())
}

func (d *chainDemo) greet() error {
	term.Printf("\nThe chain is open: %d branches of one taxpayer.\n  store       http://%s      (an S3 server over "+
		"%s/store)\n  authority   http://%s      simulated; http://%s manages it\n",
		len(d.branches), d.store, d.shown, d.branches[0].authority, d.branches[0].manage)
	for i, b := range d.branches {
		term.Printf("  %-10s  http://%s      (token in %s/%s/pos.token; http://%s is its status page)\n", Branches[i],
			b.API, d.shown, Branches[i], b.Ops)
	}
	_, err := term.Printf(`
In another terminal:

  export DTECTL_FLEET=%[1]s/fleet.toml
  bin/dtectl fleet status
  bin/dtectl fleet publish --group %[2]s %[1]s/next.dterule --pilots %[3]s --soak 0s
  bin/dtectl fleet roll --follow
  bin/dtectl fleet back
  bin/dtectl fleet serve --listen %[4]s

`, d.shown, demoGroup, Branches[0], d.page)
	return err
}
