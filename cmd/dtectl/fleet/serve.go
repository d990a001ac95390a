package fleet

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dtegate/cmd/dtectl/fleet/centre"
	"dtegate/cmd/screen"
)

// Serve is dtectl fleet serve.
type Serve struct {
	Listen       string        `default:"127.0.0.1:8090" help:"Address; outside this machine it needs --certificate and --password-file."`
	Every        time.Duration `default:"30s" help:"How often the store is asked."`
	Certificate  string        `type:"existingfile" help:"TLS certificate, PEM."`
	Key          string        `type:"existingfile" help:"Its private key, PEM."`
	PasswordFile string        `type:"existingfile" help:"File with the password that a browser asks for (any user), and Prometheus sends (basic_auth)."`
}

// Run serves until it is ended. It needs to read and to list, and no key.
func (c *Serve) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	if c.Every < time.Second {
		return errors.New("--every: at least 1s")
	}
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
	if ip := net.ParseIP(host); (ip == nil || !ip.IsLoopback()) && host != "localhost" && (encrypted == nil || password == "") {
		return fmt.Errorf("--listen: %s is not of this machine alone: it needs --certificate, --key and --password-file", c.Listen)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	scheme := "http"
	if encrypted != nil {
		ln, scheme = tls.NewListener(ln, encrypted), "https"
	}
	screen.Printf("the chain's page is at %s://%s\n", scheme, ln.Addr())
	return serve(ctx, ln, newSite(chain, password, scheme), c.Every)
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
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); s.refresh(ctx, every) }()
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

// site answers from the last survey; no request asks the store.
type site struct {
	surveyor *centre.Surveyor
	password [sha256.Size]byte
	open     bool // without a password
	scheme   string
	routes   *http.ServeMux
	latest   atomic.Pointer[centre.Survey]
	trouble  atomic.Pointer[string] // why the last attempt failed; nil: it did not
	failures prometheus.Counter
}

func newSite(c *centre.Chain, password, scheme string) *site {
	s := &site{surveyor: centre.NewSurveyor(c), password: sha256.Sum256([]byte(password)), open: password == "", scheme: scheme, routes: http.NewServeMux(),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_chain_survey_failures_total", Help: "Attempts to read the chain's store that failed."})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.failures, &collector{site: s})
	s.routes.HandleFunc("GET /{$}", s.page)
	s.routes.HandleFunc("GET /status.json", s.json)
	s.routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.routes.HandleFunc("GET /metrics/branch/{branch}", s.branchMetrics)
	s.routes.HandleFunc("GET /targets", s.targets)
	return s
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.open {
		_, password, _ := r.BasicAuth()
		if given := sha256.Sum256([]byte(password)); subtle.ConstantTimeCompare(given[:], s.password[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="dtectl fleet", charset="UTF-8"`)
			http.Error(w, "password", http.StatusUnauthorized)
			return
		}
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	s.routes.ServeHTTP(w, r)
}

// refresh reads the chain until ctx ends.
func (s *site) refresh(ctx context.Context, every time.Duration) {
	for {
		s.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

func (s *site) read(ctx context.Context) {
	found, err := s.surveyor.Read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.failures.Inc()
			text := err.Error()
			s.trouble.Store(&text)
			screen.Fprintf(screen.Err, "reading the chain: %v\n", err)
		}
		return
	}
	s.latest.Store(found)
	s.trouble.Store(nil)
}
