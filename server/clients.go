package server

import "net/netip"

// Client describes a connection, for system_views.clients. Its columns are Cassandra's. Options is the map of the
// connection and must not be changed.
type Client struct {
	Address         netip.AddrPort
	Stage           string // ESTABLISHED, AUTHENTICATION or READY
	User            string // empty if anonymous
	Keyspace        string // empty if none is in use
	ProtocolVersion int    // 0 before STARTUP
	Options         map[string]string
	DriverName      string
	DriverVersion   string
	Requests        int64
	TLS             bool
}

// Clients returns the open connections, in no particular order.
func (s *Server) Clients() []Client {
	conns := s.connections()
	list := make([]Client, 0, len(conns))
	for _, c := range conns {
		// The fields need not be consistent with each other, because the connection is not stopped to read them.
		client := Client{
			Address:  c.client,
			Stage:    stage(c.stage.Load()).String(),
			Requests: c.requests.Load(),
			TLS:      c.secure != nil && c.secure.Encrypted(),
		}
		// There is no session before STARTUP.
		if session := c.session.Load(); session != nil {
			client.User, client.Keyspace = c.principal().Name, session.Keyspace
			client.ProtocolVersion, client.Options = session.Version, session.Options
			client.DriverName, client.DriverVersion = session.Options["DRIVER_NAME"], session.Options["DRIVER_VERSION"]
		}
		list = append(list, client)
	}
	return list
}
