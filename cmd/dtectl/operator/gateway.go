package operator

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
)

// Flags name an appliance: this one's configuration, unless they say otherwise.
type Flags struct {
	Gateway   string `help:"The operators' address of an appliance, https://host:port; default: of the configuration."`
	TokenFile string `type:"existingfile" help:"File with its admin token; default: of the configuration."`
	Pin       string `help:"SHA-256 fingerprint of its authority or certificate, as dtectl tls show prints it; default: what the system trusts." placeholder:"HEX"`
}

// Gateway is an appliance's admin API.
type Gateway struct {
	URL    string
	token  string
	client *http.Client
	own    bool // of this box: what is sent does not leave it
}

// OwnGateway is the appliance of this box; without a token file it is asked for what anybody may see.
func OwnGateway(cfg *config.Config) (g *Gateway, err error) {
	g = &Gateway{own: true}
	if g.URL, g.client, err = OwnOps(cfg); err == nil && cfg.Ops.AdminTokenFile != "" {
		err = g.readToken(cfg.Ops.AdminTokenFile)
	}
	return g, err
}

// Open is the appliance that the flags name.
func (f Flags) Open(top *Options) (*Gateway, error) {
	g, file := &Gateway{URL: f.Gateway, client: http.DefaultClient}, f.TokenFile
	if g.URL == "" || file == "" {
		cfg, err := config.Load(top.Config)
		if err != nil {
			return nil, err
		}
		if g.URL == "" {
			if g.URL, g.client, err = OwnOps(cfg); err != nil {
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

// At is an appliance at an address, with the file of its admin token and the fingerprint of its authority or certificate; without
// one, what the system trusts.
func At(address, tokenFile, pin string) (g *Gateway, err error) {
	g = &Gateway{URL: address, client: http.DefaultClient}
	if pin != "" {
		if g.client, err = pinned(pin); err != nil {
			return nil, err
		}
	}
	if err := g.safe(); err != nil {
		return nil, err
	}
	return g, g.readToken(tokenFile)
}

func (g *Gateway) readToken(file string) error {
	token, err := ReadNamed(file)
	if err != nil {
		return fmt.Errorf("reading admin token: %w", err)
	}
	g.token = strings.TrimSpace(string(token))
	return nil
}

// Safe refuses an appliance to which the admin token and rules would go in plain HTTP over a network.
func (g *Gateway) safe() error {
	if g.own {
		return nil
	}
	if err := config.CheckURL(g.URL); err != nil {
		return fmt.Errorf("the appliance's address %w", err)
	}
	return nil
}

// Send makes a request; the caller closes the answer. Statuses other than 200 and 422 (a bundle that is refused) are errors.
func (g *Gateway) Send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	if query == nil {
		query = make(url.Values)
	}
	if err := g.safe(); err != nil {
		return nil, err
	}
	query.Set("who", Who()) // for the branch's record
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(g.URL, "/")+path+"?"+query.Encode(), bytes.NewReader(body))
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
	refused := &Refusal{Status: resp.StatusCode, kind: problem.Type, message: strings.TrimSpace(problem.Message)}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		refused.After = time.Duration(n) * time.Second
	}
	return nil, refused
}

// Refusal is a request that an appliance refuses.
type Refusal struct {
	Status        int
	kind, message string        // its code and text
	After         time.Duration // when to ask again, 0: it does not say
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the appliance says %d: %s", r.Status, r.message)
}

// Ask decodes the answer of a request.
func (g *Gateway) Ask(ctx context.Context, method, path string, query url.Values, body []byte, into any) error {
	resp, err := g.Send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the appliance's answer: %w", err)
	}
	return nil
}

// AskOwn asks this box's appliance.
func AskOwn(ctx context.Context, cfg *config.Config, method, path string, body any, into any) error {
	g, err := OwnGateway(cfg)
	if err != nil {
		return err
	}
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return g.Ask(ctx, method, path, nil, payload, into)
}
