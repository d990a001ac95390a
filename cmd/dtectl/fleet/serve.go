package fleet

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dtegate/cmd/term"
	"dtegate/engine/fairqueue"
	"dtegate/gateway/door"
)

type Serve struct {
	Listen       string   `default:"127.0.0.1:8090" help:"Address; needs TLS and a password unless it is local."`
	Certificate  string   `type:"existingfile" and:"tls" help:"TLS certificate, PEM."`
	Key          string   `type:"existingfile" and:"tls" help:"Its private key, PEM."`
	Names        []string `help:"More host names that a proxy may ask for." placeholder:"A,B"`
	PasswordFile string   `type:"existingfile" help:"File with the password of basic auth, for any user."`
}

const surveyEvery = 30 * time.Second

// Run serves until ctx ends. It only reads and lists the store, and needs no key.
func (c *Serve) Run(ctx context.Context, chain *Chain) error {
	encrypted, err := c.certificate()
	if err != nil {
		return err
	}
	password, err := c.password()
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if ip := net.ParseIP(host); (ip == nil || !ip.IsLoopback()) && host != "localhost" && (encrypted == nil ||
		password == "") {
		return fmt.Errorf("--listen: other machines can reach %s: it needs --certificate, --key and "+
			"--password-file", c.Listen)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	scheme := "http"
	if encrypted != nil {
		ln, scheme = tls.NewListener(ln, encrypted), "https"
	}
	term.Printf("the chain's page is at %s://%s\n", scheme, ln.Addr())
	s := newSite(chain, password, scheme)
	s.names = append(s.names, append(c.Names, host)...)
	if encrypted != nil {
		s.certificate = encrypted.Certificates[0].Leaf
	}
	return serve(ctx, ln, s, surveyEvery)
}

func (c *Serve) certificate() (*tls.Config, error) {
	if c.Certificate == "" && c.Key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("--certificate, --key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

func (c *Serve) password() (string, error) {
	if c.PasswordFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.PasswordFile)
	if err == nil && len(strings.TrimSpace(string(b))) < 12 {
		err = errors.New("it has fewer than 12 characters")
	}
	if err != nil {
		return "", fmt.Errorf("--password-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func serve(ctx context.Context, ln net.Listener, s *site, every time.Duration) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.read(ctx); fairqueue.Sleep(ctx, every) == nil; {
			s.read(ctx)
		}
	}()
	end := context.AfterFunc(ctx, func() { _ = server.Close() })
	err := server.Serve(ln)
	end()
	cancel()
	<-done
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// site answers from the last survey; a request never reads the store.
type site struct {
	surveyor *Surveyor
	password [sha256.Size]byte
	open     bool // no password is needed
	scheme   string
	names    []string // hosts that a request may name, besides addresses
	routes   *http.ServeMux
	// certificate has the names of the server; nil: no TLS.
	certificate *x509.Certificate
	guesses     *door.Buckets // wrong passwords, by address
	wrong       prometheus.Counter
	latest      atomic.Pointer[Survey]
	trouble     atomic.Pointer[string] // why the last reading failed; nil: it succeeded
	failures    prometheus.Counter
}

func newSite(c *Chain, password, scheme string) *site {
	s := &site{surveyor: NewSurveyor(c), password: sha256.Sum256([]byte(password)), open: password == "",
		scheme: scheme, names: []string{"localhost"}, routes: http.NewServeMux(),
		guesses: door.NewBuckets(mostGuesses, time.Minute, mostGuesses),
		wrong: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_chain_wrong_passwords_total",
			Help: "Requests to dtectl fleet serve with a wrong password."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_chain_survey_failures_total",
			Help: "Attempts to read the chain's store that failed."})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.failures, s.wrong, &collector{site: s})
	s.routes.HandleFunc("GET /{$}", s.page)
	s.routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.routes.HandleFunc("GET /metrics/branch/{branch}", s.branchMetrics)
	s.routes.HandleFunc("GET /targets", s.targets)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.named(r.Host) {
		http.Error(w, "this server does not have that name: ask for its address, or start it with --names",
			http.StatusMisdirectedRequest)
		return
	}
	if !s.open && !s.admit(w, r) {
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	s.routes.ServeHTTP(w, r)
}

// named reports whether a Host is a name of the server, or an address. Another site's page can make a browser send a
// request here with the site's name as Host (DNS rebinding), but never with an address.
func (s *site) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || s.certificate != nil && s.certificate.VerifyHostname(host) == nil ||
		slices.ContainsFunc(s.names, func(n string) bool { return strings.EqualFold(n, host) })
}

// admit checks the password. Each network may send mostGuesses wrong passwords a minute.
func (s *site) admit(w http.ResponseWriter, r *http.Request) bool {
	address, _ := netip.ParseAddrPort(r.RemoteAddr)
	from := door.NetworkOf(net.TCPAddrFromAddrPort(address))
	now := s.surveyor.Chain.Now()
	if wait := s.guesses.Take(from, now); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(1+int(wait/time.Second)))
		http.Error(w, "too many wrong passwords", http.StatusTooManyRequests)
		return false
	}
	_, password, asked := r.BasicAuth()
	given := sha256.Sum256([]byte(password))
	right := subtle.ConstantTimeCompare(given[:], s.password[:]) == 1
	if right || !asked { // a browser asks without a password first
		s.guesses.GiveBack(from)
	}
	if right {
		return true
	}
	if asked {
		s.wrong.Inc()
		term.Fprintf(term.Err, "%s: a wrong password from %s\n", local(now), from)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="dtectl fleet", charset="UTF-8"`)
	http.Error(w, "password", http.StatusUnauthorized)
	return false
}

// mostGuesses is how many wrong passwords a network may send in a minute. Then even the right password is refused.
const mostGuesses = 10

func (s *site) read(ctx context.Context) {
	found, err := s.surveyor.Read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.failures.Inc()
			text := err.Error()
			s.trouble.Store(&text)
			term.Fprintf(term.Err, "reading the chain: %v\n", err)
		}
		return
	}
	s.latest.Store(found)
	s.trouble.Store(nil)
}
