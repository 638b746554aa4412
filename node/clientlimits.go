package node

import (
	"cqld/node/config"
	"cqld/server"
	"cqld/server/frame"
)

// serverLimits returns the limits of the CQL server.
func serverLimits(o *config.Options) server.Limits {
	l := &o.ClientLimits
	s := server.Limits{FrameBytesMax: o.Requests.MaxFrameBytes, ConnectionsMax: o.Requests.MaxClients,
		ConnectionsPerAddressMax: l.ConnectionsPerAddress,
		IdleTimeout:              l.IdleTimeout, InFlightBytesMax: l.BytesInFlight,
		ReceivingBytesMax: o.Memory.Division.Receiving(),
		AddressBytesMax:   l.BytesPerAddress,
		VersionMax:        frame.Version(l.ProtocolVersion), OlderVersionsRefused: !l.OlderProtocols,
		HandshakeTimeout: l.Authentication}
	if l.RateLimited {
		s.RequestsPerSecond = l.RequestsPerSecond
	}
	return s
}
