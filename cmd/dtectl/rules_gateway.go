package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/rules/bundle"
)

// gatewayFlags name an appliance: this one's configuration, unless they say otherwise.
type gatewayFlags struct {
	Gateway   string `help:"The operators' address of an appliance, https://host:port; default: of the configuration."`
	TokenFile string `type:"existingfile" help:"File with its admin token; default: of the configuration."`
	Pin       string `help:"SHA-256 fingerprint of its authority or certificate, as dtectl tls show prints it; default: what the system trusts." placeholder:"HEX"`
}

// gateway is an appliance's admin API.
type gateway struct {
	url, token string
	client     *http.Client
	own        bool // of this box: what is sent does not leave it
}

// ownGateway is the appliance of this box; without a token file it is asked for what anybody may see.
func ownGateway(cfg *config.Config) (g *gateway, err error) {
	g = &gateway{own: true}
	if g.url, g.client, err = ownOps(cfg); err == nil && cfg.Ops.AdminTokenFile != "" {
		err = g.readToken(cfg.Ops.AdminTokenFile)
	}
	return g, err
}

func (f gatewayFlags) open(top *cli) (*gateway, error) {
	g, file := &gateway{url: f.Gateway, client: http.DefaultClient}, f.TokenFile
	if g.url == "" || file == "" {
		cfg, err := config.Load(top.Config)
		if err != nil {
			return nil, err
		}
		if g.url == "" {
			if g.url, g.client, err = ownOps(cfg); err != nil {
				return nil, err
			}
			g.own = true
		}
		file = cmp.Or(file, cfg.Ops.AdminTokenFile)
	}
	if f.Pin != "" {
		var err error
		if g.client, err = pinned(f.Pin); err != nil {
			return nil, err
		}
	}
	if err := g.safe(); err != nil {
		return nil, err
	}
	return g, g.readToken(file)
}

func (g *gateway) readToken(file string) error {
	token, err := readNamed(file)
	if err != nil {
		return fmt.Errorf("reading admin token: %w", err)
	}
	g.token = strings.TrimSpace(string(token))
	return nil
}

// safe refuses an appliance to which the admin token and rules would go in plain HTTP over a network.
func (g *gateway) safe() error {
	if g.own {
		return nil
	}
	if err := config.CheckURL(g.url); err != nil {
		return fmt.Errorf("the appliance's address %w", err)
	}
	return nil
}

// send makes a request; the caller closes the answer. Statuses other than 200 and 422 (a bundle that is refused) are errors.
func (g *gateway) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	if query == nil {
		query = make(url.Values)
	}
	if err := g.safe(); err != nil {
		return nil, err
	}
	query.Set("who", who()) // for the branch's record
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(g.url, "/")+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	client := *g.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would carry the token elsewhere
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the appliance (is it running?): %w", err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnprocessableEntity {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("asking the appliance: %w", err)
	}
	var problem struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Errors  []struct {
			Path    string `json:"path"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(answer, &problem) != nil {
		problem.Message = string(answer)
	}
	for _, e := range problem.Errors {
		problem.Message += "; " + e.Path + ": " + e.Message
	}
	refused := &refusedByGateway{status: resp.StatusCode, kind: problem.Type, message: strings.TrimSpace(problem.Message)}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		refused.after = time.Duration(n) * time.Second
	}
	return nil, refused
}

// refusedByGateway is a request that an appliance refuses.
type refusedByGateway struct {
	status        int
	kind, message string        // its code and text
	after         time.Duration // when to ask again, 0: it does not say
}

func (r *refusedByGateway) Error() string {
	return fmt.Sprintf("the appliance says %d: %s", r.status, r.message)
}

// ask decodes the answer of a request.
func (g *gateway) ask(ctx context.Context, method, path string, query url.Values, body []byte, into any) error {
	resp, err := g.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the appliance's answer: %w", err)
	}
	return nil
}

// bundleFile is a bundle on its way to branches, which are the ones to verify it.
type bundleFile struct {
	path, digest string
	data         []byte
	manifest     bundle.Manifest
}

func (f *bundleFile) String() string { return f.manifest.Name + " " + f.manifest.Version }

func readBundles(paths []string) (list []*bundleFile, err error) {
	for _, path := range paths {
		f := &bundleFile{path: path}
		if f.data, err = readNamed(path); err != nil {
			return nil, fmt.Errorf("reading rule bundle: %w", err)
		}
		b, err := bundle.Inspect(f.data) // as strictly as a branch does: what a branch would refuse is not sent
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f.digest, f.manifest = b.Digest, b.Manifest
		list = append(list, f)
	}
	return list, nil
}
