// Package demo makes a demonstration branch, or a chain of three branches, and keeps its processes alive: dtectl demo.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
)

type Command struct {
	Dir   string   `default:"var/demo" env:"DTED_DEMO_DIR" type:"path" help:"The demo's folder, made on first use."`
	Day   string   `placeholder:"yyyy-mm-dd" help:"Begin on a later day; there is no way back to an earlier one."`
	Law   []string `type:"existingfile" placeholder:"FILE" help:"Bundles that are the simulated authority's law."`
	Chain bool     `help:"Three branches of a chain, on an object store."`
	Store string   `type:"existingfile" help:"Program of the object store: versitygw." placeholder:"FILE"`
}

// Run supervises the appliance and the simulated authority. The authority is a process of its own, so that it keeps its
// documents when somebody kills the appliance.
func (c *Command) Run(ctx context.Context) error {
	if c.Chain {
		return c.runChain(ctx)
	}
	d, err := New(ctx, c.Dir, c.Day)
	if err != nil {
		return fmt.Errorf("preparing %s: %w", c.Dir, err)
	}
	if err := awaitFree(ctx, append(d.simulated(), place{"DTED_API_ADDR", d.API}, place{"DTED_OPS_ADDR",
		d.Ops})...); err != nil {
		return err
	}
	authority := []string{"-issuers", filepath.Join(c.Dir, "issuers.json"), "-ahead", d.ahead.String(),
		"-keep", filepath.Join(c.Dir, "authority.jsonl")}
	for _, file := range c.Law {
		authority = append(authority, "-law", file)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return supervise(ctx, filepath.Join(c.Dir, "dtesim.pid"), func() *exec.Cmd {
			return command("dtesim", authority...)
		})
	})
	g.Go(func() error {
		return supervise(ctx, filepath.Join(c.Dir, "dted.pid"), func() *exec.Cmd {
			return command("dted", "-config", d.Config)
		})
	})
	g.Go(func() error {
		if err := Await(ctx, "http://"+d.Ops+"/readyz"); err != nil {
			return err
		}
		d.greet(term.Out)
		return nil
	})
	return ended(g.Wait())
}

// ended returns the error of a demonstration; nil if the operator ended it.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// command runs a program from the folder of this program.
func command(name string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return child(filepath.Join(filepath.Dir(self), name), args...)
}

func child(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	// Remove the two variables that all boxes would share: each box reads its addresses from its own configuration.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DTED_API_ADDR=") || strings.HasPrefix(v, "DTED_OPS_ADDR=")
	})
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	// If the supervisor dies, the kernel ends its processes. Ctrl-C reaches only the supervisor, which then ends them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd
}

// supervise keeps a process running until ctx ends, and then stops it with SIGTERM. After each quick end of the process
// it waits longer, from 100 ms to 5 s. While NAME.stop exists beside NAME.pid, it starts nothing.
func supervise(ctx context.Context, pidFile string, start func() *exec.Cmd) error {
	defer os.Remove(pidFile)
	pause := 100 * time.Millisecond
	for {
		if await(ctx, func() error {
			if _, err := os.Stat(strings.TrimSuffix(pidFile, ".pid") + ".stop"); err == nil {
				return errors.New("the process was told to stop")
			}
			return nil
		}) != nil {
			return nil
		}
		cmd := start()
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("starting %s: %w", cmd.Path, err)
		}
		if err := os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
			return fmt.Errorf("writing pid file: %w", err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-done:
			case <-time.After(15 * time.Second):
				_ = cmd.Process.Kill()
			}
			return nil
		case err := <-done:
			if time.Since(began) > 10*time.Second {
				pause = 100 * time.Millisecond
			}
			term.Fprintf(term.Err, "%s ended (%v), starting it again\n", filepath.Base(cmd.Path), err)
		}
		if fairqueue.Sleep(ctx, pause) != nil {
			return nil
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// await calls try until it succeeds; when ctx ends, it returns the last error.
func await(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if fairqueue.Sleep(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// Await polls an address until it answers 200.
func Await(ctx context.Context, url string) error {
	return await(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	})
}

func (d *Demo) greet(w io.Writer) {
	day := ""
	if d.ahead != 0 {
		day = ", and it is " + dte.Date(time.Now().Add(d.ahead))
	}
	term.Fprintf(w, strings.TrimLeft(`
The branch is open%[8]s.
  tills       http://%[1]s      (token in %[2]s/pos.token)
  operators   http://%[3]s      (/ is the status page; /metrics /livez /readyz /status)
  authority   http://%[4]s      simulated; http://%[5]s manages it

A consumer invoice (DTE-01):

  curl -sS http://%[1]s/dte/dte01 -H "x-api-token: $(cat %[2]s/pos.token)" \
    -H 'Content-Type: application/json' -H "Idempotency-Key: sale-$(date +%%s)" -d '%[6]s'

A tax credit voucher (DTE-03):

  curl -sS http://%[1]s/dte/dte03 -H "x-api-token: $(cat %[2]s/pos.token)" \
    -H 'Content-Type: application/json' -d '%[7]s'

`, "\n"), d.API, d.shown, d.Ops, d.authority, d.manage, saleFE, SaleCCF, day)
}

const saleFE = `{"receptor":{"nombre":"Ana Morales","tipoDocumento":"13","numDocumento":"012345678",` +
	`"correo":"ana@example.com"},"items":[{"descripcion":"Café molido 1 lb","cantidad":2,"precioUnitario":6.95},` +
	`{"descripcion":"Pan francés","cantidad":10,"precioUnitario":0.25}],"condicionOperacion":1}`

const SaleCCF = `{"receptor":{"tipoDocumento":"36","numDocumento":"06140202801028","nit":"06140202801028",` +
	`"nrc":"7654321","nombre":"Comercial El Roble, S.A. de C.V.","codActividad":"62010",` +
	`"descActividad":"Programación informática","direccion":{"departamento":"05","municipio":"28","distrito":"11",` +
	`"complemento":"Avenida Las Magnolias 2"},"correo":"compras@example.com"},"items":[{"descripcion":` +
	`"Resma de papel carta","cantidad":10,"precioUnitario":4.25}],"condicionOperacion":1}`

const freeWithin = 5 * time.Second

// awaitFree fails if another process keeps listening on an address of the demonstration. Otherwise the tills would
// reach that process.
func awaitFree(ctx context.Context, places ...place) error {
	ctx, cancel := context.WithTimeout(ctx, freeWithin)
	defer cancel()
	for _, p := range places {
		err := await(ctx, func() error {
			l, err := net.Listen("tcp", p.address)
			if err != nil {
				return err
			}
			return l.Close()
		})
		if err != nil {
			return fmt.Errorf("%s is not free: if another demonstration runs, end it first (Ctrl-C), or set %s: %w",
				p.address, p.variable, err)
		}
	}
	return nil
}

// place is an address, and the environment variable that sets it.
type place struct{ variable, address string }

func (d *Demo) simulated() []place {
	return []place{{"DTESIM_ADDR", d.authority}, {"DTESIM_MANAGE_ADDR", d.manage}, {"DTESIM_SMTP_ADDR", d.inbox}}
}
