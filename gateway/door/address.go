package door

import (
	"net"
	"net/netip"
)

// AddressOf is the address that a connection comes from, exactly: with the zone of a link-local one.
func AddressOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap()
}

// NetworkOf names whom a request without a good token counts for: an IPv4 address, or the IPv6 network that one host can
// have to itself, in which it changes addresses as it likes. It stops no till: whoever has a good token is not asked.
func NetworkOf(a net.Addr) string {
	ip := AddressOf(a)
	if network, err := ip.WithZone("").Prefix(64); ip.Is6() && !ip.IsLoopback() && err == nil {
		ip = network.Addr()
	}
	return ip.String()
}
