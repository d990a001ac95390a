package door

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

// guarded is a door of connections in memory, with the connections that it refused.
type guarded struct {
	*Listener
	t       *testing.T
	pipes   pipes
	refused map[string]int
}

func newGuarded(t *testing.T, p Places) *guarded {
	g := &guarded{t: t, pipes: pipes{make(chan net.Conn, 64)}, refused: make(map[string]int)}
	g.Listener = Listen(g.pipes, nil, p, func(reason string) { g.refused[reason]++ })
	return g
}

// enter opens a connection that finds a place: in is the appliance's side, out the caller's.
func (g *guarded) enter(address string) (in, out net.Conn) {
	g.t.Helper()
	out = g.pipes.dial(address)
	in, err := g.Accept()
	if err != nil {
		g.t.Fatal(err)
	}
	return in, out
}

// sound checks the door's books against each other.
func (g *guarded) sound() {
	g.t.Helper()
	d := g.Listener
	open, strangers, known := 0, 0, 0
	for address, at := range d.by {
		if at.open > d.places.PerAddress || at.open == 0 {
			g.t.Errorf("%s has %d connections", address, at.open)
		}
		open, strangers = open+at.open, strangers+at.strangers.Len()
	}
	for token, n := range d.tokens {
		if n > d.places.PerToken || n == 0 {
			g.t.Errorf("token %d has %d connections", token, n)
		}
		known += n
	}
	if listed := d.unknown.Len() + d.familiar.Len(); open != d.open || open > d.places.All || strangers != listed ||
		strangers > d.places.Strangers || open != strangers+known {
		g.t.Errorf("%d connections open, %d by address, %d strangers, %d listed, %d known", d.open, open, strangers,
			listed, known)
	}
	if len(d.friends) > maxFriends {
		g.t.Errorf("%d friends", len(d.friends))
	}
}

func TestDoor(t *testing.T) {
	d := newGuarded(t, Places{All: 6, Strangers: 4, PerAddress: 2, PerToken: 2})
	till, tillOut := d.enter("10.0.0.1")
	Trust(till, 1)
	_, first := d.enter("10.0.0.2")
	_, second := d.enter("10.0.0.2")
	_, third := d.enter("10.0.0.2") // takes the place of its address's oldest
	if !closed(first) || closed(second) || closed(third) || d.refused["address_stranger"] != 1 {
		t.Errorf("the third connection of an address: %v", d.refused)
	}
	fourth, _ := d.enter("fd00::1")
	_, fifth := d.enter("fd00::2")
	_, _ = d.enter("10.0.0.5") // the strangers have their four places
	if !closed(second) || closed(third) || closed(fifth) || closed(tillOut) || d.refused["stranger"] != 1 {
		t.Errorf("not the oldest stranger made room: %v", d.refused)
	}
	// A till's next connection is spared while strangers of other addresses are there.
	_, next := d.enter("10.0.0.1")
	for i := range 8 {
		d.enter(fmt.Sprintf("10.0.1.%d", i))
	}
	if closed(next) || closed(tillOut) {
		t.Error("strangers drove a till's connection out")
	}
	// A place is freed once, whoever closes the connection, however often.
	open := d.open
	_ = fourth.Close()
	_ = fourth.Close()
	if d.open != open { // it was driven out before
		t.Errorf("%d open, then %d", open, d.open)
	}
	d.sound()
}

// A token fills its own places and no others; where only known connections are left, a newcomer is refused.
func TestDoor_Known(t *testing.T) {
	d := newGuarded(t, Places{All: 4, Strangers: 2, PerAddress: 4, PerToken: 2})
	for range 3 {
		in, _ := d.enter("10.0.0.1")
		Trust(in, 1)
		Trust(in, 1)
	}
	if d.tokens[1] != 2 || d.familiar.Len() != 1 {
		t.Errorf("%v are known, %d strangers", d.tokens, d.familiar.Len())
	}
	d.sound()
	Trust(d.familiar.Front().Value.(*visitor), 2)
	in, _ := d.enter("10.0.0.2")
	Trust(in, 2)
	refused := d.pipes.dial("10.0.0.3")
	same := d.pipes.dial("10.0.0.1")
	close(d.pipes.ch)
	if _, err := d.Accept(); err == nil || !closed(refused) || !closed(same) || d.refused["connections"] != 2 {
		t.Errorf("a newcomer where all are known: %v %v", err, d.refused)
	}
	d.sound()
}

// TestDoor_Friends: the door remembers the addresses that showed a good token last, and as many of them as it may.
func TestDoor_Friends(t *testing.T) {
	d := newGuarded(t, Tills)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	dice := rand.New(rand.NewPCG(1, 1))
	var latest []netip.Addr // the latest last
	for range 3 * maxFriends {
		a := address(dice.IntN(2 * maxFriends))
		d.befriend(a)
		latest = append(slices.DeleteFunc(latest, func(b netip.Addr) bool { return a == b }), a)
		latest = latest[max(0, len(latest)-maxFriends):]
	}
	for _, a := range latest {
		if _, ok := d.friends[a]; !ok {
			t.Fatalf("%v is forgotten", a)
		}
	}
	if len(d.friends) != len(latest) || len(latest) != maxFriends {
		t.Errorf("%d friends, %d are the latest", len(d.friends), len(latest))
	}
}

// TestDoor_Model: whatever callers do, the door closes exactly the connections that a plain list of all connections
// says: the address's oldest stranger, the oldest stranger, a friend's last.
func TestDoor_Model(t *testing.T) {
	type caller struct {
		in, out          net.Conn
		address          string
		token            int64
		familiar, closed bool
	}
	dice := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		p := Places{All: 3 + dice.IntN(6), PerAddress: 1 + dice.IntN(4), PerToken: 1 + dice.IntN(3)}
		p.Strangers = 1 + dice.IntN(p.All)
		d, friends := newGuarded(t, p), make(map[string]bool)
		var list []*caller
		count := func(fn func(*caller) bool) (n int, oldest *caller) {
			for _, c := range list {
				if !c.closed && fn(c) {
					if n++; c.token == 0 && (oldest == nil || oldest.familiar && !c.familiar) {
						oldest = c
					}
				}
			}
			return n, oldest
		}
		for range 200 {
			if dice.IntN(3) > 0 {
				address, lost := fmt.Sprintf("10.0.0.%d", dice.IntN(6)), false
				next := &caller{address: address, familiar: friends[address]}
				makeRoom := func(n, most int, oldest *caller) {
					if n < most || lost {
						return
					}
					if lost = oldest == nil; !lost {
						oldest.closed = true
					}
				}
				// within an address, all are friends or none became one later: the first is the oldest
				n, _ := count(func(c *caller) bool { return c.address == address })
				i := slices.IndexFunc(list, func(c *caller) bool {
					return c.address == address && !c.closed && c.token == 0
				})
				if i < 0 {
					makeRoom(n, p.PerAddress, nil)
				} else {
					makeRoom(n, p.PerAddress, list[i])
				}
				all, oldest := count(func(*caller) bool { return true })
				strangers, _ := count(func(c *caller) bool { return c.token == 0 })
				if strangers >= p.Strangers || all >= p.All {
					makeRoom(1, 1, oldest)
				}
				next.out = d.pipes.dial(address)
				if lost { // Accept takes the next connection, for which there is a place
					v := &visitor{Conn: from{next.out, &net.TCPAddr{IP: net.ParseIP(address)}}, door: d.Listener,
						address: netip.MustParseAddr(address)}
					<-d.pipes.ch
					if reason := d.Listener.enter(v); reason == "" {
						t.Fatalf("%s has got a place, %+v", address, p)
					}
				} else {
					var err error
					if next.in, err = d.Accept(); err != nil {
						t.Fatal(err)
					}
					list = append(list, next)
				}
			} else if len(list) > 0 {
				c, token := list[dice.IntN(len(list))], 1+dice.Int64N(4)
				if dice.IntN(4) == 0 {
					_ = c.in.Close()
					c.closed = true
				} else if Trust(c.in, token); !c.closed && c.token == 0 {
					friends[c.address] = true
					if n, _ := count(func(c *caller) bool { return c.token == token }); n < p.PerToken {
						c.token = token
					}
				}
			}
			d.sound()
			for i, c := range list {
				if closed(c.out) != c.closed {
					t.Fatalf("connection %d of %d, from %s, %+v: closed: %v, want %v", i, len(list), c.address, p,
						closed(c.out), c.closed)
				}
			}
			if len(list) > 30 { // a caller that was closed some time ago may still show its token
				list = slices.DeleteFunc(list, func(c *caller) bool { return c.closed })
			}
		}
	}
}

// TestDoor_Hammer: ten thousand connections, from many addresses of one IPv6 network, of many IPv4 hosts, or of one.
// Some show a token. A till that was here before always gets in, and stays until its token has come, while 500 others
// knock; a new till does so too while fewer knock than there are places for strangers.
func TestDoor_Hammer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, address := range map[string]func(i int) string{
		"one /64": func(int) string {
			return fmt.Sprintf("2001:db8:0:1:%x::%x", random.IntN(1<<16),
				random.IntN(1<<16))
		},
		"IPv4 hosts":   func(i int) string { return fmt.Sprintf("10.%d.%d.%d", 1+i%4, i/4%256, random.IntN(256)) },
		"one host":     func(int) string { return "2001:db8:0:1::bad" },
		"link-local":   func(int) string { return fmt.Sprintf("fe80::%x", random.IntN(1<<16)) },
		"a till's own": func(int) string { return "2001:db8:0:1::1" },
	} {
		t.Run(name, func(t *testing.T) {
			d := newGuarded(t, Tills)
			tills := []string{"2001:db8:0:1::1", "2001:db8:0:1::2", "10.0.0.1", "fe80::1:0:1"}
			for i, till := range tills {
				in, out := d.enter(till)
				Trust(in, int64(i+1))
				_ = out.Close()
				_ = in.Close()
			}
			type waits struct {
				in, out net.Conn
				until   int
				till    int
			}
			var coming []waits
			for i := range 10_000 {
				in, _ := d.enter(address(i))
				if random.IntN(50) == 0 {
					Trust(in, 100)
				}
				if i%97 == 0 {
					in, out := d.enter(tills[i%len(tills)])
					wait := 500 // connections of strangers before its token comes
					if name == "a till's own" {
						wait = Tills.PerAddress - Tills.PerToken - 8
					}
					coming = append(coming, waits{in, out, i + wait, 1 + i%len(tills)})
				}
				if i%997 == 0 { // never seen before
					in, out := d.enter(fmt.Sprintf("2001:db8:0:1::7:%x", i))
					coming = append(coming, waits{in, out, i + 500, 50})
				}
				for j := 0; j < len(coming); j++ {
					if w := coming[j]; w.until == i {
						if closed(w.out) {
							t.Fatalf("connection %d: till %d was driven out", i, w.till)
						}
						Trust(w.in, int64(w.till))
						_ = w.in.Close()
						coming = append(coming[:j], coming[j+1:]...)
						j--
					}
				}
				if i%500 == 0 {
					d.sound()
				}
			}
			d.sound()
		})
	}
}

// pipes is a listener of connections in memory, from any address.
type pipes struct{ ch chan net.Conn }

type from struct {
	net.Conn
	address net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.address }

func (p pipes) dial(address string) net.Conn {
	a, b := net.Pipe()
	p.ch <- from{a, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}
	return b
}

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.ch; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// closed tells whether the other side hung up.
func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // a pipe that is closed says so before its deadline does
	_, err := c.Read(make([]byte, 1))
	return err != nil && !os.IsTimeout(err)
}

// TestNetworkOf: an IPv6 host changes its address within its /64 at will, and still counts as one caller; an IPv4
// address is one caller.
func TestNetworkOf(t *testing.T) {
	for _, c := range []struct {
		address *net.TCPAddr
		want    string
	}{
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1")}, "2001:db8::"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::ffff:1")}, "2001:db8::"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8:0:1::1")}, "2001:db8:0:1::"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, "fe80::"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::2"), Zone: "eth1"}, "fe80::"},
		{&net.TCPAddr{IP: net.ParseIP("::1")}, "::1"},
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1")}, "10.0.0.1"},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.2")}, "10.0.0.2"},
	} {
		if got := NetworkOf(c.address); got != c.want {
			t.Errorf("%v: %s, want %s", c.address, got, c.want)
		}
	}
	if a := AddressOf(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}); a.Zone() != "eth0" {
		t.Errorf("the connections of two links count together: %v", a)
	}
	if a := AddressOf(&net.UnixAddr{Name: "/a"}); a.IsValid() {
		t.Errorf("a socket has the address %v", a)
	}
}
