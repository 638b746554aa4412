package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"cqld/server/frame"
)

// ClientLimits bound what clients may use. Zero means no bound, or the server's default where it is named. They apply
// to each node; the bounds of requests are for one node, too. Connections are bounded by count and memory by bytes,
// because an idle connection costs little and one large request may cost as much as thousands.
type ClientLimits struct {
	ConnectionsPerAddress int           // native_transport_max_concurrent_connections_per_ip
	IdleTimeout           time.Duration // native_transport_idle_timeout
	// RateLimited enables RequestsPerSecond: native_transport_rate_limiting_enabled.
	RateLimited       bool
	RequestsPerSecond int   // native_transport_max_requests_per_second
	BytesInFlight     int64 // native_transport_max_request_data_in_flight; the server's default is 192 MiB
	// PageBytes ends a page of a result, as its rows do: query_page_size.
	PageBytes       int
	BytesPerAddress int64         // native_transport_max_request_data_in_flight_per_ip
	ProtocolVersion int           // native_transport_max_negotiable_protocol_version: 3 to 5
	OlderProtocols  bool          // native_transport_allow_older_protocols
	Authentication  time.Duration // native_transport_authentication_timeout: from the connection to READY

	TablesConnectionsPerAddress int           // tables_max_connections_per_ip
	TablesIdleTimeout           time.Duration // tables_idle_timeout; the server's default is 5 minutes
}

// The bounds of query_page_size: a page of a few rows, and the largest frame that drivers accept by default. A page
// that is too small costs a request for each few rows; one that is too large is memory that each client may claim.
const (
	pageBytesMin = 16 << 10
	pageBytesMax = 16 << 20
)

// requestsPerSecond is Cassandra's default. It applies only with native_transport_rate_limiting_enabled, as in
// Cassandra.
const requestsPerSecond = 1_000_000

// defaultClientLimits returns the limits without configuration: no bounds by address, and every protocol version.
func defaultClientLimits() ClientLimits {
	return ClientLimits{RequestsPerSecond: requestsPerSecond, ProtocolVersion: int(frame.V5), OlderProtocols: true,
		Authentication: 5 * time.Second, PageBytes: 1 << 20}
}

// clientLimitSettings returns the options of ClientLimits. Two options configure Azure Tables, the others CQL.
func clientLimitSettings() map[string]setting {
	return map[string]setting{
		"native_transport_max_concurrent_connections_per_ip": bound(func(o *Options) *int {
			return &o.ClientLimits.ConnectionsPerAddress
		}),
		"native_transport_idle_timeout": duration(func(o *Options) *time.Duration {
			return &o.ClientLimits.IdleTimeout
		}),
		"native_transport_rate_limiting_enabled": truth(func(o *Options) *bool {
			return &o.ClientLimits.RateLimited
		}),
		"native_transport_max_requests_per_second": number(func(o *Options) *int {
			return &o.ClientLimits.RequestsPerSecond
		}),
		"native_transport_max_request_data_in_flight": size64(func(o *Options) *int64 {
			return &o.ClientLimits.BytesInFlight
		}),
		"native_transport_max_request_data_in_flight_per_ip": size64(func(o *Options) *int64 {
			return &o.ClientLimits.BytesPerAddress
		}),
		"query_page_size": size(func(o *Options) *int { return &o.ClientLimits.PageBytes }),
		"native_transport_max_negotiable_protocol_version": number(func(o *Options) *int {
			return &o.ClientLimits.ProtocolVersion
		}),
		"native_transport_allow_older_protocols": truth(func(o *Options) *bool {
			return &o.ClientLimits.OlderProtocols
		}),
		"native_transport_authentication_timeout": duration(func(o *Options) *time.Duration {
			return &o.ClientLimits.Authentication
		}),
		"tables_max_connections_per_ip": bound(func(o *Options) *int {
			return &o.ClientLimits.TablesConnectionsPerAddress
		}),
		"tables_idle_timeout": duration(func(o *Options) *time.Duration {
			return &o.ClientLimits.TablesIdleTimeout
		}),
	}
}

// bound reads a number. As in Cassandra, -1 means no bound. A negative value other than -1 is refused by
// validateClientLimits. The field is 0 for no bound, so that the zero value of the options bounds nothing.
func bound(field func(*Options) *int) setting {
	// Errors of other texts are the same as for other numbers.
	read := number(field)
	return func(o *Options, v *yaml.Node) error {
		// Other negative numbers are left to validateClientLimits.
		if v.Value == "-1" {
			*field(o) = 0
			return nil
		}
		return read(o, v)
	}
}

// validateClientLimits checks the values that the file's types do not. The types of the settings allow negative
// numbers, because -1 has a meaning there. It runs before DivideMemory, so bounds that are 0 are skipped here and
// validated there.
func (o *Options) validateClientLimits(bad func(name, format string, args ...any)) {
	l := &o.ClientLimits
	for name, n := range map[string]int64{
		"native_transport_max_concurrent_connections":        int64(o.Requests.MaxClients),
		"native_transport_max_concurrent_connections_per_ip": int64(l.ConnectionsPerAddress),
		"native_transport_idle_timeout":                      int64(l.IdleTimeout),
		"tables_max_connections_per_ip":                      int64(l.TablesConnectionsPerAddress),
		"tables_idle_timeout":                                int64(l.TablesIdleTimeout),
	} {
		if n < 0 {
			bad(name, "must not be negative")
		}
	}
	// The rate has an effect only together with the switch, so it may be anything without.
	if l.RateLimited && l.RequestsPerSecond < 1 {
		bad("native_transport_max_requests_per_second", "must be positive")
	}
	if l.PageBytes < pageBytesMin || l.PageBytes > pageBytesMax {
		bad("query_page_size", "%d bytes are not between 16KiB and 16MiB", l.PageBytes)
	}
	if l.Authentication <= 0 {
		bad("native_transport_authentication_timeout", "must be positive")
	}
	// The node must accept at least one request of the largest size.
	for name, n := range map[string]int64{"native_transport_max_request_data_in_flight": l.BytesInFlight,
		"native_transport_max_request_data_in_flight_per_ip": l.BytesPerAddress} {
		// Zero means no bound, or the server's default.
		if n != 0 && n < int64(o.Requests.MaxFrameBytes) {
			bad(name, "must be at least native_transport_max_frame_size, or the largest requests would always be "+
				"refused")
		}
	}
	// The server supports no other versions.
	if v := frame.Version(l.ProtocolVersion); v < frame.V3 || v > frame.V5 {
		bad("native_transport_max_negotiable_protocol_version", "%d is not 3, 4 or 5", l.ProtocolVersion)
	}
}
