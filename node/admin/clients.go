package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"cqld/node/clients"
	"cqld/node/control"
	"cqld/storage"
)

// Clients shows and ends the requests of clients, and opens and closes the servers for them.
type Clients struct {
	servers *clients.Servers
	engine  *storage.Engine
	refuse  func() error // why clients are refused because of the clock, or nil
	log     *slog.Logger
}

// QueryPrefix precedes the number of a request in system_views.queries, as in Cassandra. Cassandra shows its thread
// names, which operators copy.
const QueryPrefix = "Native-Transport-Requests-"

// Drain prepares the node for a stop: it refuses clients until the process ends, and flushes everything. The node stays
// a member and keeps its data; a restart serves clients again. Unlike nodetool drain, it does not stop the internode
// port: the node continues to answer coordinators as a replica, and what it writes after the flush is in the log.
func (c *Clients) Drain(ctx context.Context, _ control.None, report control.Report) (control.None, error) {
	// Both steps report their progress, because the first may take long.
	report(control.Progress{What: "waiting for requests in progress", Total: 2})
	// The error of requests that do not end is reported and the flush still made.
	err := c.servers.Drain(ctx) // requests that do not end must not prevent the flush
	report(control.Progress{What: "flushing", Done: 1, Total: 2})
	if err := errors.Join(err, c.engine.Flush()); err != nil {
		return control.None{}, err
	}
	c.log.Info("node drained; it refuses clients until it is restarted")
	return control.None{}, nil
}

// Ready reports whether the node serves clients, and why not. It never returns an error: an answer with On false is a
// valid result.
func (c *Clients) Ready(context.Context, control.None, control.Report) (control.Switch, error) {
	if err := c.servers.Ready(); err != nil {
		return control.Switch{Why: err.Error()}, nil
	}
	return control.Switch{On: true}, nil
}

// BinaryOf reports whether CQL clients can connect. The clock is checked before the server, which may be open and
// still refuse requests.
func (c *Clients) BinaryOf(context.Context, control.None, control.Report) (control.Switch, error) {
	if err := c.refuse(); err != nil {
		return control.Switch{Why: err.Error()}, nil
	}
	return control.Switch{On: c.servers.Accepting()}, nil
}

// SetBinary opens or closes the CQL server. Opening is refused after a drain and for a node that is not a member.
// Closing disconnects the clients; Azure Tables is not affected.
func (c *Clients) SetBinary(ctx context.Context, a control.Switch, _ control.Report) (control.Switch, error) {
	if !a.On {
		return a, c.servers.StopCQL(ctx)
	}
	err := c.servers.StartCQL()
	switch {
	// Other errors, such as a port in use, are the node's and reach the operator as they are.
	case errors.Is(err, clients.ErrDrained):
		err = &control.Error{Code: control.Refused, Message: "the node is drained: restart it"}
	case errors.Is(err, clients.ErrNotMember):
		err = &control.Error{Code: control.Refused, Message: err.Error()}
	}
	return a, err
}

// KillQuery ends a request of a CQL client. The id is the number in system_views.queries, with or without the prefix.
// The connection stays open. A write that was sent to replicas is not undone, and its client then gets the actual
// outcome (server.Server.Kill).
func (c *Clients) KillQuery(_ context.Context, a control.QueryArgs, _ control.Report) (control.None, error) {
	// A number without the prefix is accepted, because operators copy either.
	id, err := strconv.ParseUint(strings.TrimPrefix(a.ID, QueryPrefix), 10, 64)
	if err != nil {
		return control.None{}, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not the thread_id of a query in system_views.queries, nor its number", a.ID)}
	}
	// A request that has just ended is not in progress any longer.
	if s := c.servers.CQL(); s == nil || !s.Kill(id) {
		return control.None{}, &control.Error{Code: control.Refused,
			Message: fmt.Sprintf("Query %d is not in progress on this node", id)}
	}
	return control.None{}, nil
}

// Connections lists the connections of CQL clients. A closed server has none.
func (c *Clients) Connections(context.Context, control.None, control.Report) (control.Clients, error) {
	out := control.Clients{Clients: []control.Connection{}}
	s := c.servers.CQL()
	if s == nil {
		return out, nil
	}
	for _, client := range s.Clients() {
		out.Clients = append(out.Clients, control.Connection{Address: client.Address.String(), Stage: client.Stage,
			// An unauthenticated connection has no user.
			User:     cmp.Or(client.User, "anonymous"),
			Keyspace: client.Keyspace, Version: client.ProtocolVersion,
			Driver:   strings.TrimSpace(client.DriverName + " " + client.DriverVersion),
			Requests: client.Requests, TLS: client.TLS})
	}
	// The order is by address, so that a watch of the list is readable.
	slices.SortFunc(out.Clients, func(a, b control.Connection) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}
