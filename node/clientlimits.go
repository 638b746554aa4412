package node

import (
	"cqld/node/config"
	"cqld/server"
	"cqld/server/frame"
)

// serverLimits returns the limits of the CQL server. Zero fields keep the server's defaults.
func serverLimits(o *config.Options) server.Limits {
	// ReceivingBytesMax is derived from the division of the memory and has no option of its own: it bounds requests
	// that are still being read, which the pool of requests does not contain yet.
	l := &o.ClientLimits
	s := server.Limits{FrameBytesMax: o.Requests.MaxFrameBytes, ConnectionsMax: o.Requests.MaxClients,
		ConnectionsPerAddressMax: l.ConnectionsPerAddress,
		IdleTimeout:              l.IdleTimeout, InFlightBytesMax: l.BytesInFlight,
		ReceivingBytesMax: o.Memory.Division.Receiving(),
		AddressBytesMax:   l.BytesPerAddress,
		VersionMax:        frame.Version(l.ProtocolVersion), OlderVersionsRefused: !l.OlderProtocols,
		HandshakeTimeout: l.Authentication}
	// Without the switch, RequestsPerSecond stays zero, which means no bound.
	if l.RateLimited {
		s.RequestsPerSecond = l.RequestsPerSecond
	}
	return s
}
