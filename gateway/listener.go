package gateway

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// handshakeTimeout is how long a client may take for its TLS handshake.
const handshakeTimeout = 5 * time.Second

// door is a listener that bounds its connections: in all, and from one address. When all places are taken, a newcomer
// gets that of the oldest connection which no good token ever came over: a till finds a place among ten thousand idle
// strangers. fasthttp has limits of its own, but tells those it refuses from within its accept loop, where a TLS
// handshake that never comes would hold up everybody.
type door struct {
	net.Listener
	tls              *tls.Config // nil: plain HTTP
	most, perAddress int
	refused          func(reason string)

	mu        sync.Mutex
	open      int
	by        map[netip.Addr]int
	strangers *list.List // of *visitor, the oldest first
}

func newDoor(ln net.Listener, config *tls.Config, most, perAddress int, refused func(string)) *door {
	return &door{Listener: ln, tls: config, most: most, perAddress: perAddress, refused: refused, by: make(map[netip.Addr]int), strangers: list.New()}
}

// visitor is a connection that takes up a place.
type visitor struct {
	net.Conn
	door    *door
	address netip.Addr
	// Of door.mu. place is nil once the visitor is known by a token; gone, once its place is free.
	place *list.Element
	gone  bool
}

// Accept returns the next connection that there is a place for.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		v := &visitor{Conn: c, door: d, address: addressOf(c.RemoteAddr())}
		if reason := d.enter(v); reason != "" {
			d.refused(reason)
			_ = c.Close()
			continue
		}
		if d.tls == nil {
			return v, nil
		}
		return &encrypted{Conn: tls.Server(v, d.tls), visitor: v}, nil
	}
}

// enter gives a visitor a place, or says why there is none.
func (d *door) enter(v *visitor) (refusal string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by[v.address] >= d.perAddress {
		return "address_connections"
	}
	if d.open >= d.most {
		oldest := d.strangers.Front()
		if oldest == nil {
			return "connections"
		}
		d.refused("stranger")
		stranger := oldest.Value.(*visitor)
		d.leave(stranger)
		_ = stranger.Conn.Close() // its worker finds out
	}
	d.open++
	d.by[v.address]++
	v.place = d.strangers.PushBack(v)
	return ""
}

// leave frees a visitor's place, once.
func (d *door) leave(v *visitor) {
	if v.gone {
		return
	}
	v.gone = true
	d.open--
	if d.by[v.address]--; d.by[v.address] == 0 {
		delete(d.by, v.address)
	}
	d.known(v)
}

// known takes a visitor off the strangers.
func (d *door) known(v *visitor) {
	if v.place != nil {
		d.strangers.Remove(v.place)
		v.place = nil
	}
}

// Close frees the place.
func (v *visitor) Close() error {
	v.door.mu.Lock()
	v.door.leave(v)
	v.door.mu.Unlock()
	return v.Conn.Close()
}

// encrypted is a visitor over TLS.
type encrypted struct {
	*tls.Conn
	visitor *visitor
}

// Handshake is what fasthttp begins with. Whoever speaks plain HTTP is told in plain HTTP.
func (e *encrypted) Handshake() error {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	err := e.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	e.visitor.door.refused("handshake")
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && isHTTP(record.RecordHeader[:]) {
		_ = record.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = record.Conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" +
			`{"status":"error","type":"TLS_REQUIRED","message":"Este puerto habla HTTPS","errors":[]}` + "\n"))
		discard(record.Conn)
	}
	_ = e.visitor.Close()
	return err
}

func isHTTP(b []byte) bool {
	switch string(b[:4]) {
	case "GET ", "POST", "HEAD", "PUT ", "DELE", "OPTI":
		return true
	}
	return false
}

// trust notes that a good token came over a connection.
func trust(c net.Conn) {
	var v *visitor
	switch c := c.(type) {
	case *visitor:
		v = c
	case *encrypted:
		v = c.visitor
	default:
		return // a test's
	}
	v.door.mu.Lock()
	v.door.known(v)
	v.door.mu.Unlock()
}

// addressOf is whom a connection counts for: an IPv4 address, or the IPv6 network that one host has to itself.
func addressOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(t.IP)
	if ip = ip.Unmap(); ip.Is4() || ip.IsLoopback() {
		return ip
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip
	}
	return network.Addr()
}
