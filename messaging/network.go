package messaging

import (
	"context"
	"net"
	"net/netip"
)

// Network opens the connections of a transport. The remote address of each connection must be an IP address with a
// port: Bindings identifies peers by their IP addresses. A Network is safe for concurrent use.
type Network interface {
	// Listen listens at an address.
	Listen(at netip.AddrPort) (net.Listener, error)
	// Dial connects to an address. The connection comes from the IP address from, if that is valid.
	Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error)
}

// TCP is the Network of the operating system.
type TCP struct{}

// Listen implements Network.
func (TCP) Listen(at netip.AddrPort) (net.Listener, error) { return net.Listen("tcp", at.String()) }

// Dial implements Network.
func (TCP) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{}
	if from.IsValid() {
		// Port 0: the system chooses one.
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return d.DialContext(ctx, "tcp", to.String())
}
