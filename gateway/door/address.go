package door

import (
	"net"
	"net/netip"
)

// AddressOf returns the exact address that a connection comes from, with the zone of a link-local address.
func AddressOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap()
}

// NetworkOf returns the name under which a request without a good token is counted: an IPv4 address, or the IPv6 network that
// one host can have for itself and in which it can change its address. It stops no till: a request with a good token is not
// counted.
func NetworkOf(a net.Addr) string {
	ip := AddressOf(a)
	if network, err := ip.WithZone("").Prefix(64); ip.Is6() && !ip.IsLoopback() && err == nil {
		ip = network.Addr()
	}
	return ip.String()
}
