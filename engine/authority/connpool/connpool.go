// Package connpool keeps connections to one HTTP server ready, so that no request waits for a slow connect. It looks up
// names and connects in the background, even for seconds; a sale's request waits only a short time for a ready
// connection. Begin with Link.
package connpool

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/fairqueue"
)

// ConnectTimeout is the default of Options.ConnectTimeout: TCP repeats a lost SYN after 1, 3 and 7 seconds.
const ConnectTimeout = 10 * time.Second

const (
	// maxConnections bounds the connections that are open or being made.
	maxConnections = 64
	// spare is how many unused connections Run keeps ready.
	spare = 3
	// patience is how long a request waits for a connection to a silent server. The sender tries a sale three times.
	patience = 300 * time.Millisecond
	// liveliness is the longest silence after which a server still counts as reachable. A request to a reachable server
	// waits until another request frees a connection.
	liveliness = 2 * time.Second
)

// Options of New.
type Options struct {
	// URL of the server: only its scheme (http or https), host and port count.
	URL string
	// ConnectTimeout bounds the making of a connection: look-up, TCP and TLS together. Default 10 s.
	ConnectTimeout time.Duration
	// TLS is the base of the connections' configuration. Default: the system's roots.
	TLS *tls.Config
	// Lookup finds the addresses of a name. Default: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address. Default: net.Dialer with probes of idle connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Link is an http.RoundTripper for one server. Each request goes out once, on one connection. Without Run, a Link makes
// no spare connections. It is safe for concurrent use.
type Link struct {
	options   Options
	scheme    string
	address   string // host:port
	names     *names
	transport *http.Transport
	metrics   *metrics
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	ready     fairqueue.Bell // see Ready
	kick      fairqueue.Bell // wakes Run

	mu       sync.Mutex // guards the fields below
	idle     []*conn    // the most recently used is last
	live     int        // connections that are open, idle or busy
	dialing  int
	waiting  []chan *conn // requests without a connection, the oldest first
	running  bool
	closed   bool
	heard    time.Time     // the latest answer or handshake
	asked    time.Time     // the first request since the latest answer or handshake
	failure  error         // of the latest connect, nil after a success
	failures int           // connects that failed in a row
	dialled  time.Time     // when the latest connect began
	retry    time.Time     // no spare connection is made before this time
	life     time.Duration // how long a connection may be idle
	starved  bool          // a request or a connect failed since Ready last got a value
}

// New returns a link; it connects to nothing. A URL that has no host fails at the first request.
func New(o Options) *Link {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, ConnectTimeout)
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		// A silently cut connection is detected in the background, within half a minute.
		d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second,
			Interval: 5 * time.Second, Count: 3}}
		o.Dial = d.DialContext
	}
	l := &Link{options: o, metrics: newMetrics(), ready: fairqueue.NewBell(), kick: fairqueue.NewBell(), life: maxLife}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	host, port := "", ""
	if u, err := url.Parse(o.URL); err == nil {
		l.scheme, host, port = u.Scheme, u.Hostname(), u.Port()
	}
	port = cmp.Or(port, map[string]string{"http": "80", "https": "443"}[l.scheme])
	l.address = net.JoinHostPort(host, port)
	l.names = &names{host: host, link: l}
	if ip, err := netip.ParseAddr(host); err == nil {
		l.names.addresses, l.names.fixed = []netip.Addr{ip}, true
	}
	config := cmp.Or(o.TLS.Clone(), new(tls.Config))
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(0) // saves a round trip in later handshakes
	}
	l.transport = &http.Transport{DialContext: l.socket, TLSClientConfig: config, DisableCompression: true,
		Protocols: new(http.Protocols)}
	// A connection carries one request at a time: a lost packet of one sale delays no other sale.
	l.transport.Protocols.SetHTTP1(true)
	return l
}

// Ready returns a channel that gets a value when a connect succeeds after a failed connect or an unserved request.
func (l *Link) Ready() <-chan struct{} { return l.ready }

// Limit returns the longest time that making a connection may take.
func (l *Link) Limit() time.Duration { return l.options.ConnectTimeout }

type patientKey struct{}

// Patient returns a context for requests that delay no sale: they wait for a connection until the context ends.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// RoundTrip sends a request on a ready connection. If it gets no connection, it returns an error and nothing was sent.
func (l *Link) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := l.take(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	return c.roundTrip(req)
}

// Run keeps spare connections ready until ctx ends, then closes them. Each new one may look the server's name up again.
func (l *Link) Run(ctx context.Context) error {
	defer l.Close()
	l.mu.Lock()
	l.running = true
	l.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.kick:
		case <-time.After(l.tend()):
		}
	}
}

// Connect makes one connection now, with a new look-up of the name, and keeps the connection ready.
func (l *Link) Connect(ctx context.Context) (Steps, error) {
	l.names.forget()
	c, steps, err := l.connect(ctx)
	if err != nil {
		return steps, err
	}
	l.put(c)
	return steps, nil
}

type metrics struct {
	steps    *prometheus.HistogramVec
	failures *prometheus.CounterVec
	waits    *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_authority_connect_duration_seconds",
			Help: "Time of a step of connecting to MH that went well: lookup, tcp, tls.", Buckets: []float64{.005, .01,
				.025, .05, .1, .25, .5, 1, 2, 4, 8, 16}}, []string{"step"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_connect_failures_total",
			Help: "Steps of connecting to MH that failed or took too long: lookup, tcp, tls."}, []string{"step"}),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_connection_waits_total",
			Help: "Requests to MH that found no ready connection: served in their time, or failed."},
			[]string{"result"}),
	}
	for _, step := range []string{"lookup", "tcp", "tls"} {
		m.failures.WithLabelValues(step)
	}
	m.waits.WithLabelValues("served")
	m.waits.WithLabelValues("failed")
	return m
}

// step counts a step of a connect. took is 0 if the step was not reached.
func (m *metrics) step(name string, took time.Duration, failed bool) {
	if failed {
		m.failures.WithLabelValues(name).Inc()
	} else if took > 0 {
		m.steps.WithLabelValues(name).Observe(took.Seconds())
	}
}

func (l *Link) Collect(ch chan<- prometheus.Metric) {
	ready, busy, connecting := l.counts()
	states := prometheus.NewDesc("dte_authority_connections",
		"Connections to MH: ready, busy with a request, connecting.", []string{"state"}, nil)
	for state, n := range map[string]int{"ready": ready, "busy": busy, "connecting": connecting} {
		ch <- prometheus.MustNewConstMetric(states, prometheus.GaugeValue, float64(n), state)
	}
	l.metrics.steps.Collect(ch)
	l.metrics.failures.Collect(ch)
	l.metrics.waits.Collect(ch)
}
