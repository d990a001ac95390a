package contingency_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/authority/connpool/linktest"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// behind starts a branch in fake time that keeps connections to MH ready over a given path.
func behind(t *testing.T, path *linktest.Path, fn func(*enginetest.Box)) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Close()
		path.Under = b.Cable.DialContext
		b.Path = path
		b.Start()
		b.Chaos(simulator.Chaos{})
		fn(b)
		b.Close()
		synctest.Wait() // nobody dials any more
		path.Close()
		b.Path = nil
		b.Start()
	})
}

// quantiles are those of the times that sales took.
func quantiles(took []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// Four tills sell over a satellite: 600 ms of round trip, a packet of fifty lost, a slow name server and a slow
// connect. No sale is in contingency. DTE_SOAK sells for a day.
func TestSlowLink_Sales(t *testing.T) {
	sales := 50
	if os.Getenv("DTE_SOAK") != "" {
		sales = 2000
	}
	for name, path := range map[string]*linktest.Path{
		"name after 350 ms":      {Name: 350 * time.Millisecond},
		"connect after 350 ms":   {Connect: 350 * time.Millisecond},
		"600 ms round trip, 2 %": {OneWay: 300 * time.Millisecond, Loss: .02},
		"all of it, and 3 s a SYN": {OneWay: 300 * time.Millisecond, Loss: .02, Name: 350 * time.Millisecond,
			Connect: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, path, func(b *enginetest.Box) {
				time.Sleep(15 * time.Second) // the box has started
				var mu sync.Mutex
				var took []time.Duration
				var wg sync.WaitGroup
				for till := range 4 {
					wg.Go(func() {
						chance := rand.New(rand.NewPCG(2, uint64(till)))
						for i := range sales {
							req := enginetest.Sale(fmt.Sprint(till, " ", i), 100+i)
							req.Caller = enginetest.TestCaller(till + 1)
							r, d := timed(b, req)
							if r.Estado != record.EstadoProcessed {
								b.T.Errorf("till %d, sale %d is %s after %v", till, i, r.Estado, d)
							}
							mu.Lock()
							took = append(took, d)
							mu.Unlock()
							time.Sleep(time.Duration(chance.Int64N(int64(time.Minute))))
						}
					})
				}
				wg.Wait()
				if b.Engine.Contingency().Current() != nil {
					b.T.Errorf("the branch is in %+v", b.Engine.Contingency().Current())
				}
				p50, p99 := quantiles(took)
				b.T.Logf("%d sales took %v at the median, %v at p99", len(took), p50, p99)
				b.Audit()
			})
		})
	}
}

// Whatever the delays of a path to MH are below the limit, the branch does not stay in contingency. Whatever they are,
// a sale that does not reach MH waits less than a second. When a path beyond the limit comes back below it, the branch
// leaves contingency.
func TestSlowLink_Property(t *testing.T) {
	rounds := 5
	if os.Getenv("DTE_SOAK") != "" {
		rounds = 300
	}
	chance := rand.New(rand.NewPCG(3, 3))
	for round := range rounds {
		// Name, SYN and its answer: below 10 s together. The retransmissions of a loss come on top: none here.
		path := &linktest.Path{OneWay: time.Duration(chance.Int64N(int64(900 * time.Millisecond))),
			Name:    time.Duration(chance.Int64N(int64(3 * time.Second))),
			Connect: time.Duration(chance.Int64N(int64(3 * time.Second)))}
		beyond := round%3 == 0
		behind(t, path, func(b *enginetest.Box) {
			sell := func(key string) *record.View {
				b.T.Helper()
				r, took := timed(b, enginetest.Sale(key, 100))
				if r.Estado == record.EstadoContingency && took >= time.Second || took > 20*path.OneWay+time.Second {
					b.T.Errorf("%s is %s after %v", key, r.Estado, took)
				}
				return r
			}
			slow := path.Connect
			if beyond {
				path.Change(func(p *linktest.Path) { p.Connect = connpool.ConnectTimeout + time.Second })
			}
			for i := range 5 {
				sell(fmt.Sprint("at the start ", i))
				time.Sleep(time.Duration(chance.Int64N(int64(3 * time.Second))))
			}
			if beyond {
				for i := range 10 {
					if r := sell(fmt.Sprint("beyond ", i)); r.Estado != record.EstadoContingency {
						b.T.Errorf("beyond the limit a sale is %s", r.Estado)
					}
					time.Sleep(time.Duration(chance.Int64N(int64(time.Minute))))
				}
				path.Change(func(p *linktest.Path) { p.Connect = slow })
			}
			// A connect under way, the pause behind it, a connect, a login and two probes.
			time.Sleep(connpool.ConnectTimeout + 15*time.Second + connpool.ConnectTimeout + 10*time.Second)
			for i := range 10 {
				if r := sell(fmt.Sprint("then ", i)); r.Estado != record.EstadoProcessed {
					b.T.Fatalf("behind %v, %v, %v a sale is %s, the branch in %+v", path.OneWay, path.Name,
						path.Connect, r.Estado, b.Engine.Contingency().Current())
				}
				time.Sleep(time.Duration(chance.Int64N(int64(2 * time.Minute))))
			}
			b.Drained()
			b.Audit()
		})
	}
}

// Over real sockets: a name server on UDP that takes 350 ms, a SYN that takes 350 ms, TLS, a round trip of 40 ms.
func TestSlowLink_Sockets(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	mh := httptest.NewTLSServer(w.Sim.Protocol())
	defer mh.Close()
	roots := x509.NewCertPool()
	roots.AddCert(mh.Certificate())
	_, port, err := net.SplitHostPort(mh.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dns := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", nameServer(t, 350*time.Millisecond))
	}}
	path := &linktest.Path{OneWay: 20 * time.Millisecond, Connect: 350 * time.Millisecond}
	way := connpool.New(connpool.Options{URL: "https://example.com:" + port, TLS: &tls.Config{RootCAs: roots},
		Dial: path.Dial,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return dns.LookupNetIP(ctx, "ip4",
				host)
		}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = way.Run(ctx) }()
	defer func() { stop(); <-done; path.Cut() }()
	steps, err := way.Connect(ctx)
	if err != nil || steps.Lookup < 350*time.Millisecond || steps.TCP < 350*time.Millisecond ||
		steps.TLS < 20*time.Millisecond {
		t.Fatalf("connecting took %+v: %v", steps, err)
	}
	if err := w.Client(way, "https://example.com:"+port); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for i := range 20 {
		began := time.Now()
		r, err := w.Engine.Issue(t.Context(), enginetest.Sale(fmt.Sprint(i), 100+i))
		if took = append(took, time.Since(began)); err != nil || r.Estado != record.EstadoProcessed {
			t.Fatalf("sale %d after %v is %+v: %v", i, took[i], r, err)
		}
	}
	p50, p99 := quantiles(took)
	t.Logf("names %v, TCP %v, TLS %v; %d sales took %v at the median, %v at p99", steps.Lookup, steps.TCP, steps.TLS,
		len(took), p50, p99)
}

// nameServer answers every question for an A record with 127.0.0.1, late, and returns its address.
func nameServer(t *testing.T, late time.Duration) string {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		for {
			q := make([]byte, 512)
			n, from, err := server.ReadFrom(q)
			if err != nil {
				return
			}
			time.AfterFunc(late, func() { _, _ = server.WriteTo(answerA(q[:n]), from) })
		}
	}()
	return server.LocalAddr().String()
}

// answerA makes the answer to a question of DNS (RFC 1035 §4).
func answerA(q []byte) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	end += 5                        // the root, type and class
	a := slices.Clone(q[:end])      // the rest, EDNS, is not answered
	copy(a[2:], []byte{0x81, 0x80}) // a response, recursive, without error
	copy(a[6:], make([]byte, 6))    // no answer yet
	if binary.BigEndian.Uint16(a[end-4:]) == 1 {
		a[7] = 1
		a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
	}
	return a
}
