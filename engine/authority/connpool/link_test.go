package connpool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/authority/connpool/linktest"
)

// server is a TLS server at the end of a path, and a link to it, in fake time.
type server struct {
	*httptest.Server
	path     *linktest.Path
	link     *Link
	received atomic.Int32 // bodies that were read whole
}

// inBubble runs a test with a server at the end of a path.
func inBubble(t *testing.T, path *linktest.Path, change func(*http.Server, *Options), fn func(*testing.T, *server)) {
	synctest.Test(t, func(t *testing.T) {
		memory := linktest.NewMemory()
		path.Under = memory.DialContext
		s := &server{path: path}
		s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if b, err := io.ReadAll(r.Body); err == nil && len(b) > 0 {
				s.received.Add(1)
			}
			_, _ = io.WriteString(w, "ok")
		}))
		s.Listener.Close()
		s.Listener = memory
		roots := x509.NewCertPool()
		o := Options{URL: "https://example.com", Lookup: path.Lookup, Dial: path.Dial, TLS: &tls.Config{RootCAs: roots}}
		if change != nil {
			change(s.Config, &o)
		}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		roots.AddCert(s.Certificate())
		s.link = New(o)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.link.Run(ctx) }()
		fn(t, s)
		stop()
		<-done
		synctest.Wait() // nobody dials any more
		path.Close()
		s.Close()
		if _, busy, connecting := s.link.counts(); busy+connecting > 0 {
			t.Errorf("%d connections stay busy, %d connecting", busy, connecting)
		}
	})
}

// ask posts something and returns how long the answer took.
func (s *server) ask(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/x", strings.NewReader("document"))
	if err != nil {
		return 0, err
	}
	req.GetBody = nil
	resp, err := s.link.RoundTrip(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	return time.Since(began), err
}

// However slow look-ups and connects are, a request takes one round trip.
func TestLink_Ready(t *testing.T) {
	for name, path := range map[string]*linktest.Path{
		"name after 350 ms":     {Name: 350 * time.Millisecond},
		"name after 5 s":        {Name: 5 * time.Second},
		"connect after 350 ms":  {Connect: 350 * time.Millisecond},
		"connect after 4 s":     {Connect: 4 * time.Second},
		"600 ms round trip":     {OneWay: 300 * time.Millisecond},
		"2 s and a slow server": {OneWay: time.Second, Name: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, path, nil, func(t *testing.T, s *server) {
				time.Sleep(10 * time.Second)
				for range 20 {
					if took, err := s.ask(t.Context()); err != nil || took > 2*path.OneWay {
						t.Fatalf("a request took %v: %v", took, err)
					}
					time.Sleep(rand.N(3 * time.Minute))
				}
				if ready, busy, _ := s.link.counts(); ready < 3 || busy > 0 {
					t.Errorf("%d connections are ready, %d busy", ready, busy)
				}
			})
		})
	}
}

// A request that finds no connection fails after Wait, or earlier if the connect under way fails; nothing of it was
// sent. A patient request waits. When the way is there again, Ready gets a value, and nobody waits any more.
func TestLink_Bound(t *testing.T) {
	inBubble(t, &linktest.Path{Dead: true}, nil, func(t *testing.T, s *server) {
		for range 20 {
			took, err := s.ask(t.Context())
			var dns *net.DNSError
			sooner := err != nil && took < 300*time.Millisecond && strings.HasPrefix(err.Error(), "connecting to ")
			if !sooner && (!errors.Is(err, ErrNotReady) || took != 300*time.Millisecond) || !errors.As(err, &dns) ||
				strings.Contains(err.Error(), "\n") {
				t.Fatalf("a request took %v: %v", took, err)
			}
			time.Sleep(rand.N(10 * time.Second))
		}
		select {
		case <-s.link.Ready():
			t.Error("a dead way is called ready")
		default:
		}
		s.path.Change(func(p *linktest.Path) { p.Dead = false })
		began := time.Now()
		if _, err := s.ask(Patient(t.Context())); err != nil && time.Since(began) < time.Second {
			t.Logf("what was under way failed first: %v", err)
		}
		<-s.link.Ready()
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("the way is there, and a connection after %v", took)
		}
		time.Sleep(time.Second)
		if took, err := s.ask(t.Context()); took > 0 || err != nil {
			t.Errorf("a request took %v: %v", took, err)
		}
	})
}

// However long connects failed in the past, the first failure after a success delays the next connect by a second only.
func TestLink_FailsAnew(t *testing.T) {
	var refuse atomic.Bool
	refusing := func(_ *http.Server, o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if refuse.Load() {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, network, address)
		}
	}
	inBubble(t, &linktest.Path{}, refusing, func(t *testing.T, s *server) {
		for _, long := range []time.Duration{retryFirst / 4, 10 * time.Minute, retryFirst / 4} {
			time.Sleep(time.Minute)
			refuse.Store(true)
			s.path.Cut()
			time.Sleep(long)
			refuse.Store(false)
			if long < retryFirst {
				time.Sleep(retryMax / 3) // several connects may have failed at once
			} else {
				time.Sleep(retryMax)
			}
			if ready, _, _ := s.link.counts(); ready < 3 {
				t.Errorf("after %v of refusals, %d connections are ready", long, ready)
			}
		}
	})
}

// A name that can no longer be looked up keeps its addresses.
func TestLink_LastGoodName(t *testing.T) {
	inBubble(t, &linktest.Path{}, nil, func(t *testing.T, s *server) {
		time.Sleep(time.Second)
		s.path.Change(func(p *linktest.Path) { p.Mute = true })
		for range 10 {
			time.Sleep(10 * time.Minute)
			s.path.Cut()
			time.Sleep(20 * time.Second)
			if took, err := s.ask(t.Context()); took > 0 || err != nil {
				t.Fatalf("a request took %v: %v", took, err)
			}
		}
	})
}

// A name has two addresses, and one is dead: only the first connects try the dead one. The other is tried again once
// the answering address dies, and then comes first.
func TestLink_DeadAddress(t *testing.T) {
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::2")
	var dead atomic.Pointer[netip.Addr]
	var tried atomic.Int32 // dials of the dead address
	dead.Store(&one)
	both := func(_ *http.Server, o *Options) {
		dial := o.Dial
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{one, two}, nil }
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if at, err := netip.ParseAddrPort(address); err != nil || at.Addr() == *dead.Load() {
				tried.Add(1)
				<-ctx.Done()
				return nil, errors.Join(err, ctx.Err())
			}
			return dial(ctx, network, address)
		}
	}
	inBubble(t, &linktest.Path{}, both, func(t *testing.T, s *server) {
		for _, gone := range []netip.Addr{one, two, one} {
			dead.Store(&gone)
			s.path.Cut()
			time.Sleep(retryMax)
			tried.Store(0)
			for range 3 {
				time.Sleep(5 * time.Minute) // the name is looked up again
				s.path.Cut()
				time.Sleep(retryMax) // a connection cut in its first seconds postpones the next
				if ready, _, _ := s.link.counts(); ready < 3 || tried.Load() > 0 {
					t.Errorf("%s is dead: %d connections are ready, it was dialled %d times again", gone, ready,
						tried.Load())
				}
			}
		}
	})
}

// A server closes idle connections. Once the link has learned when, hardly any request meets a closing connection, and
// none waits. Now and then the link tries whether the server grants more, and loses some connections by that: of the
// requests at the time when the server closes, less than one in a hundred meets a closing connection. It is one in
// eight if the link does not learn, and one in fifteen if all connections retire at once.
func TestLink_ServerCloses(t *testing.T) {
	// The link and the requests choose their moments at random: about one request in 20,000 meets neither a live
	// connection nor one that ends.
	for idle, c := range map[time.Duration]struct{ requests, failed, waited int }{
		5 * time.Second: {800, 16, 2}, 20 * time.Second: {100, 4, 1}, 45 * time.Second: {100, 3, 1},
	} {
		t.Run(idle.String(), func(t *testing.T) {
			shorten := func(s *http.Server, _ *Options) { s.ReadHeaderTimeout, s.IdleTimeout = idle, idle }
			inBubble(t, &linktest.Path{OneWay: 300 * time.Millisecond}, shorten, func(t *testing.T, s *server) {
				time.Sleep(2 * time.Minute)
				failed, waited := 0, 0
				for range c.requests {
					took, err := s.ask(t.Context())
					if took > 600*time.Millisecond {
						waited++
					}
					if err != nil {
						failed++ // its connection ended half a round trip away
					}
					time.Sleep(idle*3/4 + rand.N(idle/2))
				}
				if t.Logf("%d failed, %d waited", failed, waited); failed > c.failed || waited > c.waited {
					t.Errorf("%d of %d requests met a connection that the server was closing, %d waited for one",
						failed, c.requests, waited)
				}
			})
		})
	}
}

// A burst uses more connections than are spare: all requests are answered, because the server shows that it is there.
func TestLink_Burst(t *testing.T) {
	inBubble(t, &linktest.Path{OneWay: 300 * time.Millisecond}, nil, func(t *testing.T, s *server) {
		time.Sleep(10 * time.Second)
		ends := make(chan error)
		for range 200 {
			go func() { _, err := s.ask(t.Context()); ends <- err }()
		}
		for range 200 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if n := s.received.Load(); n != 200 {
			t.Errorf("the server received %d", n)
		}
		time.Sleep(3 * time.Minute)
		if ready, busy, _ := s.link.counts(); ready > 3 || busy > 0 {
			t.Errorf("long after, %d connections are ready, %d busy", ready, busy)
		}
	})
}

// A connection that breaks during its request: one RoundTrip is at most one reception, whatever its result.
func TestLink_NeverTwice(t *testing.T) {
	var received atomic.Int32
	broken := func(s *http.Server, _ *Options) {
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if b, err := io.ReadAll(r.Body); err == nil && len(b) > 0 && received.Add(1)%2 == 0 {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, "ok")
		})
	}
	inBubble(t, &linktest.Path{OneWay: 20 * time.Millisecond}, broken, func(t *testing.T, s *server) {
		time.Sleep(time.Second)
		failed := 0
		for range 100 {
			before := received.Load()
			if _, err := s.ask(t.Context()); err != nil {
				failed++
			}
			if n := received.Load() - before; n > 1 {
				t.Fatalf("one request was received %d times", n)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if failed != 50 {
			t.Errorf("%d of 100 failed", failed)
		}
	})
}

// An answer that is not read to its end costs its connection, and the link makes another connection.
func TestLink_HalfReadAnswers(t *testing.T) {
	inBubble(t, &linktest.Path{}, nil, func(t *testing.T, s *server) {
		time.Sleep(time.Second)
		for range 20 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
			resp, err := s.link.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			time.Sleep(10 * time.Millisecond)
		}
		if ready, busy, _ := s.link.counts(); ready != 3 || busy > 0 {
			t.Errorf("%d connections are ready, %d busy", ready, busy)
		}
	})
}

// TestLink_GoneIsNotGiven: a connection that the server closed before it was free is given to no waiting request, and
// is not kept.
func TestLink_GoneIsNotGiven(t *testing.T) {
	l := New(Options{URL: "http://127.0.0.1:1"})
	defer l.Close()
	turn := make(chan *conn, 1)
	for _, waiting := range [][]chan *conn{nil, {turn}} {
		l.waiting = waiting
		l.put(&conn{link: l, gone: true})
		if len(turn) > 0 || len(l.waiting) != len(waiting) || len(l.idle) > 0 {
			t.Errorf("given %d, %d wait, %d kept", len(turn), len(l.waiting), len(l.idle))
		}
	}
	l.waiting = nil
}
