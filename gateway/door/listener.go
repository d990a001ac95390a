// Package door protects a listener before a request is decoded. It limits the number of connections, the time of a TLS
// handshake, the rate of each caller and the memory for large bodies, and it records failed logins. It knows no routes.
// Its only HTTP answer states that the port speaks HTTPS.
package door

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// handshakeTimeout is how long a client may take for its TLS handshake.
const handshakeTimeout = 5 * time.Second

// Listener limits its connections: in all, of strangers, of one address and of one token. A stranger is a connection on
// which no good token has arrived yet; each connection begins as a stranger. When a limit is reached, the Listener
// closes the oldest stranger under this limit and accepts the new connection, so that idle connections cannot lock a
// till out. Without such a stranger, it refuses the new connection.
//
//   - An address at its limit loses its oldest stranger. Each IPv6 address counts separately, as a LAN is one /64.
//   - If strangers or all connections are at their limit, the oldest stranger is closed; strangers of friends last. A
//     friend is an address that sent a good token: a caller with many addresses and no token cannot displace a till.
//   - A token at its limit keeps its connections; further connections with this token remain strangers.
//
// fasthttp has its own limits, but it answers refused connections inside its accept loop. A client that never sends its
// TLS handshake would block that loop for everybody.
type Listener struct {
	net.Listener
	tls     *tls.Config // nil: plain HTTP
	places  Places
	refused func(reason string)

	mu       sync.Mutex
	open     int
	by       map[netip.Addr]*callers
	tokens   map[int64]int        // number of each token's connections that are not strangers
	unknown  list.List            // of *visitor: strangers whose address is not in friends, oldest first
	familiar list.List            // of *visitor: strangers whose address is in friends, oldest first
	friends  map[netip.Addr]int64 // value of turn at an address's last good token
	turn     int64
}

// Places are the limits of a Listener.
type Places struct {
	All        int // connections
	Strangers  int // connections without a good token; the rest of All is for connections with a good token
	PerAddress int
	PerToken   int
}

// Tills and Operators are the limits of the two listeners. PerToken is below PerAddress, so that tokens can share an
// address.
var (
	Tills     = Places{All: 2048, Strangers: 1024, PerAddress: 64, PerToken: 32}
	Operators = Places{All: 64, Strangers: 48, PerAddress: 16, PerToken: 12}
)

type callers struct {
	open      int
	strangers list.List // of *visitor, oldest first
}

// maxFriends is the largest number of friends that a Listener remembers. A branch has fewer tills.
const maxFriends = 1024

// Listen limits the connections of a listener. A nil config means plain HTTP. refused gets the reason for a connection
// that is refused, fails its handshake or is closed for a new one; refused must not call the Listener.
func Listen(ln net.Listener, config *tls.Config, p Places, refused func(string)) *Listener {
	return &Listener{Listener: ln, tls: config, places: p, refused: refused, by: make(map[netip.Addr]*callers),
		tokens: make(map[int64]int), friends: make(map[netip.Addr]int64)}
}

// visitor is a connection that counts towards the limits.
type visitor struct {
	net.Conn
	door    *Listener
	address netip.Addr
	// Guarded by door.mu. Once token is set, the elements are in no list. gone: the visitor no longer counts.
	ofDoor, ofAddress *list.Element
	in                *list.List // the list that contains ofDoor
	token             int64
	gone              bool
}

// Accept returns the next connection within the limits.
func (d *Listener) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		v := &visitor{Conn: c, door: d, address: AddressOf(c.RemoteAddr())}
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

func (d *Listener) enter(v *visitor) (refusal string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := cmp.Or(d.by[v.address], new(callers))
	if at.open >= d.places.PerAddress {
		oldest := at.strangers.Front()
		if oldest == nil {
			return "address_connections"
		}
		d.refused("address_stranger")
		d.evict(oldest.Value.(*visitor))
	}
	if d.unknown.Len()+d.familiar.Len() >= d.places.Strangers || d.open >= d.places.All {
		oldest := cmp.Or(d.unknown.Front(), d.familiar.Front())
		if oldest == nil {
			return "connections"
		}
		d.refused("stranger")
		d.evict(oldest.Value.(*visitor))
	}
	d.open++
	at.open++
	d.by[v.address] = at // an eviction may have removed the entry
	v.ofAddress = at.strangers.PushBack(v)
	v.in = &d.unknown
	if _, ok := d.friends[v.address]; ok {
		v.in = &d.familiar
	}
	v.ofDoor = v.in.PushBack(v)
	return ""
}

// evict closes a stranger's connection: the next read or write of its worker fails.
func (d *Listener) evict(v *visitor) {
	d.leave(v)
	_ = v.Conn.Close()
}

// leave ends the counting of a visitor. A second call does nothing.
func (d *Listener) leave(v *visitor) {
	if v.gone {
		return
	}
	v.gone = true
	d.open--
	d.unlist(v)
	at := d.by[v.address]
	if at.open--; at.open == 0 {
		delete(d.by, v.address)
	}
	if v.token == 0 {
		return
	}
	if d.tokens[v.token]--; d.tokens[v.token] == 0 {
		delete(d.tokens, v.token)
	}
}

// unlist removes a visitor from the strangers, if it is one.
func (d *Listener) unlist(v *visitor) {
	v.in.Remove(v.ofDoor)
	d.by[v.address].strangers.Remove(v.ofAddress)
}

// known records that a visitor has sent a good token, and makes its address a friend.
func (d *Listener) known(v *visitor, token int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.gone || v.token != 0 {
		return
	}
	d.befriend(v.address)
	if d.tokens[token] >= d.places.PerToken {
		return
	}
	d.unlist(v)
	v.token = token
	d.tokens[token]++
}

// befriend remembers an address as a friend, and forgets the oldest friend if there are too many.
func (d *Listener) befriend(a netip.Addr) {
	d.turn++
	d.friends[a] = d.turn
	if len(d.friends) <= maxFriends {
		return
	}
	oldest, since := a, d.turn
	for other, at := range d.friends {
		if at < since {
			oldest, since = other, at
		}
	}
	delete(d.friends, oldest)
}

// Close closes the connection, and removes it from the counts.
func (v *visitor) Close() error {
	v.door.mu.Lock()
	v.door.leave(v)
	v.door.mu.Unlock()
	return v.Conn.Close()
}

type encrypted struct {
	*tls.Conn
	visitor *visitor
}

// Handshake does the TLS handshake; fasthttp calls it first. A client that speaks plain HTTP gets a plain HTTP answer.
func (e *encrypted) Handshake() error {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	err := e.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	e.visitor.door.refused("handshake")
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && record.Conn != nil &&
		isHTTP(record.RecordHeader[:]) {
		_ = record.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = record.Conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: " +
			"close\r\n\r\n" +
			`{"status":"error","type":"TLS_REQUIRED","message":"Este puerto habla HTTPS","errors":[]}` + "\n"))
		Discard(record.Conn)
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

// Trust records that a good token arrived on a connection. The operators' token has the id -1.
func Trust(c net.Conn, token int64) {
	var v *visitor
	switch c := c.(type) {
	case *visitor:
		v = c
	case *encrypted:
		v = c.visitor
	default:
		return // the connection of a test
	}
	v.door.known(v, token)
}

// Discard reads the rest of a request, up to 16 MiB, for two seconds or until the client pauses. Closing a connection
// with unread bytes would reset it, and the client would not receive the answer.
func Discard(c net.Conn) {
	var b [32 << 10]byte
	end := time.Now().Add(2 * time.Second)
	for n := 0; n < 16<<20 && time.Now().Before(end); {
		if c.SetReadDeadline(time.Now().Add(200*time.Millisecond)) != nil {
			return
		}
		k, err := c.Read(b[:])
		if err != nil {
			return
		}
		n += k
	}
}

// AddressOf returns the exact address that a connection comes from, with the zone of a link-local address.
func AddressOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap()
}

// NetworkOf returns the IPv4 address or the IPv6 /64 network of a caller without a good token, for the rate limits. One
// host can use all addresses of a /64.
func NetworkOf(a net.Addr) string {
	ip := AddressOf(a)
	if network, err := ip.Prefix(64); err == nil && !ip.IsLoopback() { // IPv4 has no /64
		ip = network.Addr()
	}
	return ip.String()
}

// OwnHost reports whether a request without TLS may have this Host header. On loopback, Host must be an address or
// localhost: a web page whose name resolves to 127.0.0.1 (DNS rebinding) sends its own name in Host.
func OwnHost(local net.Addr, host string) bool {
	if tcp, ok := local.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() || host == "" {
		return true
	}
	name := host
	if only, _, err := net.SplitHostPort(host); err == nil {
		name = only
	}
	name = strings.Trim(name, "[]")
	return strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil
}
