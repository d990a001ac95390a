// Package adminclient contains what dtectl's verbs share: the common flags, the operator's name and files, and the
// client of a running appliance's admin API.
package adminclient

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/certificate"
)

// Flags name an appliance; the default is the appliance of the configuration.
type Flags struct {
	Gateway   string `help:"Operators' address of an appliance, https://host:port; default: from the configuration."`
	TokenFile string `type:"existingfile" help:"File with its admin token; default: from the configuration."`
	Pin       string `help:"Fingerprint from dtectl tls show; default: what the system trusts." placeholder:"HEX"`
}

// Gateway is an appliance's admin API.
type Gateway struct {
	URL    string
	token  string
	client *http.Client
}

// OwnGateway returns the appliance of this box. If no admin token file is configured, its requests carry no token.
func OwnGateway(cfg *config.Config) (g *Gateway, err error) {
	g = new(Gateway)
	if g.URL, g.client, err = OwnListener(cfg, "ops"); err == nil && cfg.Ops.AdminTokenFile != "" {
		err = g.readToken(cfg.Ops.AdminTokenFile)
	}
	return g, err
}

// ProvideGateway returns the appliance that the flags name, for the verb. It refuses unencrypted HTTP to another
// machine.
func (f Flags) ProvideGateway(top *Options) (*Gateway, error) {
	g, file := &Gateway{URL: f.Gateway, client: http.DefaultClient}, f.TokenFile
	if g.URL != "" {
		if err := config.CheckURL(g.URL); err != nil {
			return nil, fmt.Errorf("the appliance's address %w", err)
		}
	}
	if g.URL == "" || file == "" {
		cfg, err := config.Load(top.Config)
		if err != nil {
			return nil, err
		}
		if g.URL == "" {
			if g.URL, g.client, err = OwnListener(cfg, "ops"); err != nil {
				return nil, err
			}
		}
		file = cmp.Or(file, cfg.Ops.AdminTokenFile)
	}
	if f.Pin != "" {
		var err error
		if g.client, err = pinned(f.Pin); err != nil {
			return nil, err
		}
	}
	return g, g.readToken(file)
}

func (g *Gateway) readToken(file string) error {
	token, err := ReadNamed(file)
	if err != nil {
		return fmt.Errorf("reading admin token: %w", err)
	}
	g.token = strings.TrimSpace(string(token))
	return nil
}

// Send makes a request; the caller closes the answer. Statuses other than 200 and 422 (a refused bundle) are errors.
func (g *Gateway) Send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response,
	error) {
	if query == nil {
		query = make(url.Values)
	}
	query.Set("who", Who()) // for the branch's audit trail
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(g.URL, "/")+path+"?"+query.Encode(),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	client := *g.client
	// a redirect would carry the token to another host
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the appliance (is it running?): %w", err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnprocessableEntity {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, ReadRefusal(resp)
}

// Refusal is an appliance's refusal of a request: its code, its text and the faults of single members.
type Refusal struct {
	Status  int    `json:"-"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Errors  []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	} `json:"errors"`
	After time.Duration `json:"-"` // the wait before the next attempt, from Retry-After; 0: none
}

// ReadRefusal returns the *Refusal in an answer, or another error if the answer cannot be read.
func ReadRefusal(resp *http.Response) error {
	r := &Refusal{Status: resp.StatusCode}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("asking the appliance: %w", err)
	}
	if json.Unmarshal(text, r) != nil {
		r.Message = string(text)
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		r.After = time.Duration(n) * time.Second
	}
	return r
}

func (r *Refusal) Error() string { return "the appliance says " + r.Text() }

// Text returns the status, the code and the texts of the appliance's answer.
func (r *Refusal) Text() string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s: %s", r.Status, r.Type, r.Message))
	for _, e := range r.Errors {
		text += "; " + e.Path + ": " + e.Message
	}
	return text
}

// Ask sends a request, and decodes the answer into *into. A body of type []byte is sent unchanged, any other body as
// JSON, a nil body not at all.
func (g *Gateway) Ask(ctx context.Context, method, path string, query url.Values, body, into any) (err error) {
	data, plain := body.([]byte)
	if body != nil && !plain {
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	resp, err := g.Send(ctx, method, path, query, data)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the appliance's answer: %w", err)
	}
	return nil
}

// Follow sends a request whose answer is a stream of lines. It calls a function (each) for every line except the last,
// and returns the last line.
func (g *Gateway) Follow(ctx context.Context, method, path string, query url.Values, body []byte,
	each func(*adminapi.Line) error) (*adminapi.Line, error) {
	resp, err := g.Send(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(bufio.NewReader(resp.Body)); ; {
		l := new(adminapi.Line)
		if err := lines.Decode(l); err != nil {
			return nil, fmt.Errorf("the appliance broke off: %w", err)
		}
		switch {
		case l.Error != "":
			return nil, errors.New(l.Error)
		case l.Differs == nil && l.Progress == nil && l.Found == nil:
			return l, nil
		}
		if err := each(l); err != nil {
			return nil, err
		}
	}
}

// ShowFlags are the flags of a verb that prints an appliance's answer.
type ShowFlags struct {
	JSON bool `help:"Write one JSON object, as the appliance answers it."`
	Flags
}

// Show sends a request to an appliance, and prints the answer as JSON or calls print with it.
func Show[T any](ctx context.Context, g *Gateway, asJSON bool, method, path string, print func(answer *T) error) error {
	if asJSON {
		var answer json.RawMessage
		if err := g.Ask(ctx, method, path, nil, nil, &answer); err != nil {
			return err
		}
		return term.JSON(answer)
	}
	answer := new(T)
	if err := g.Ask(ctx, method, path, nil, nil, answer); err != nil {
		return err
	}
	return print(answer)
}

// AskOwn asks this box's appliance.
func AskOwn(ctx context.Context, cfg *config.Config, method, path string, body, into any) error {
	g, err := OwnGateway(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return g.Ask(ctx, method, path, nil, body, into)
}

// OwnListener returns the address of a listener of this box ("api", "ops"), and a client that trusts its certificate.
func OwnListener(cfg *config.Config, section string) (address string, client *http.Client, err error) {
	l := &cfg.Ops.Listener
	if section == "api" {
		l = &cfg.API.Listener
	}
	host, port, err := net.SplitHostPort(l.Listen)
	if err != nil {
		return "", nil, fmt.Errorf("%s.listen: %w", section, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if !l.Encrypted() {
		if err := onThisBox(host, section+".tls"); err != nil {
			return "", nil, fmt.Errorf("%s.listen: %w", section, err)
		}
		return "http://" + net.JoinHostPort(host, port), &http.Client{}, nil
	}
	leaf, err := certificate.Read(cmp.Or(l.Certificate, cfg.BoxAuthority().ServerFile()))
	if err != nil {
		return "", nil, err
	}
	client, err = pinned(certificate.Fingerprint(leaf))
	return "https://" + net.JoinHostPort(host, port), client, err
}

// onThisBox refuses a host that is not this box, because plain HTTP must not leave the box. Such a host may come from
// another box's configuration.
func onThisBox(host, setting string) error {
	if config.CheckURL("http://"+net.JoinHostPort(host, "80")) == nil {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("reading this box's addresses: %w", err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.ParseIP(host)) {
			return nil
		}
	}
	return fmt.Errorf("%s is not an address of this box, and %s is off: run dtectl there", host, setting)
}

// pinned returns a client that trusts the server certificate with the pinned SHA-256, or a certificate signed by the
// pinned authority in the chain. The server's name does not count: a box's own authority signs only for its own box.
func pinned(pin string) (*http.Client, error) {
	pin = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(pin, "sha256:"), ":", ""))
	if b, err := hex.DecodeString(pin); err != nil || len(b) != 32 {
		return nil, errors.New("a fingerprint is a SHA-256 in hex: 64 digits")
	}
	verify := func(s tls.ConnectionState) error {
		for i, c := range s.PeerCertificates {
			if certificate.Fingerprint(c) != pin {
				continue
			}
			if i == 0 {
				return nil
			}
			roots := x509.NewCertPool()
			roots.AddCert(c)
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		}
		return errors.New("the server's certificate is not the pinned one")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// verify checks the certificate instead
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyConnection: verify}
	return &http.Client{Transport: transport}, nil
}

// Options are the flags of every verb.
type Options struct {
	Config string `short:"c" type:"path" default:"/etc/dted/dted.toml" env:"DTED_CONFIG" help:"The configuration."`
}

// handed contains the files that the operator named, by path. Root read them, before the process changed to the
// branch's account. nil: the account has not changed.
var handed map[string][]byte

// HandOver reads, as root, the files that the operator named, for ReadNamed after the change of account.
func HandOver(files []string) {
	handed = make(map[string][]byte)
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			handed[file] = data
		}
	}
}

// HandedOver reports whether the process was started as root and now runs as another account.
func HandedOver() bool { return handed != nil }

// ReadNamed reads a file that the operator named on the command line.
func ReadNamed(path string) ([]byte, error) {
	if data, ok := handed[path]; ok {
		return data, nil
	}
	return os.ReadFile(path)
}

// ExistingAbove returns the path if it exists, otherwise its nearest existing parent folder.
func ExistingAbove(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// Who returns the operator's name and machine for the branch's audit trail. The operator is the person who logged in,
// even under sudo, doas and su, because a shared account (root, dted) does not show who acted. The name is a claim, not
// a proof. It is determined before root becomes the branch's account.
var Who = sync.OnceValue(func() string {
	name := person(os.Getenv, func() string {
		b, _ := os.ReadFile("/proc/self/loginuid") // only Linux has this file; on other systems the login is unknown
		return strings.TrimSpace(string(b))
	})
	if name == "" {
		name = "somebody"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
})

// person returns the user who called sudo or doas, or else the user who logged in; "" if that is root or unknown.
// loginuid returns the kernel's record of the login, which su does not change.
func person(environment func(string) string, loginuid func() string) string {
	for _, name := range []string{"SUDO_USER", "DOAS_USER"} {
		if asked := environment(name); asked != "" && asked != "root" {
			return asked
		}
	}
	id := loginuid()
	if id == "" || id == "0" || id == "4294967295" { // 4294967295: nobody logged in, as in a service
		return ""
	}
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return ""
}
