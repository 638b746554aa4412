package server

import (
	"errors"
	"net/netip"

	"cqld/internal/memory"
	"cqld/query"
	"cqld/server/frame"
)

// eventStream is the stream id of events. No request uses it, because clients use 0 to 32767.
const eventStream = -1

// NotifySchema sends a schema change to the registered clients. It is called on every node, once the node itself has
// applied the change.
func (s *Server) NotifySchema(change *query.SchemaChange) {
	event := wireSchemaChange(change)
	s.push(frame.SchemaChangeEvent, func(dst []byte, v frame.Version) []byte {
		return frame.AppendSchemaEvent(dst, v, &event)
	})
}

// NotifyTopology notifies the registered clients that the node at native was added (frame.NodeNew), removed or moved.
func (s *Server) NotifyTopology(change string, native netip.AddrPort) {
	s.push(frame.TopologyChange, func(dst []byte, _ frame.Version) []byte {
		return frame.AppendTopologyEvent(dst, change, native)
	})
}

// NotifyStatus notifies the registered clients that the node at native is frame.NodeUp or frame.NodeDown. UP means
// that the native port accepts connections: drivers connect to it a second later.
func (s *Server) NotifyStatus(change string, native netip.AddrPort) {
	s.push(frame.StatusChange, func(dst []byte, _ frame.Version) []byte {
		return frame.AppendStatusEvent(dst, change, native)
	})
}

// errSlowClient ends a connection that does not read its events.
var errSlowClient = errors.New("the client does not read its events")

// push sends an EVENT to the connections registered for kind. body is called once for each protocol version in use. It
// does not block: events are queued like replies.
func (s *Server) push(kind frame.Events, body func([]byte, frame.Version) []byte) {
	var encoded [frame.V6 + 1][]byte
	for _, c := range s.connections() {
		if frame.Events(c.events.Load())&kind == 0 {
			continue
		}
		// Events are not charged, so without this check, a client that does not read would accumulate them without
		// bound.
		if c.account.Exceeded() {
			c.fail(errSlowClient)
			continue
		}
		// Connections share the bytes, which the output does not modify.
		if encoded[c.version] == nil {
			encoded[c.version] = appendEvent(c.version, body)
		}
		c.out.Send(encoded[c.version], memory.Held{})
	}
}

// appendEvent returns an envelope with an EVENT.
func appendEvent(v frame.Version, body func([]byte, frame.Version) []byte) []byte {
	e := frame.AppendHeader(nil, header{Version: v, Response: true, Stream: eventStream, Opcode: frame.OpEvent})
	e = body(e, v)
	frame.FinishEnvelope(e, 0)
	return e
}

// aboutNodes reports whether the client uses the connection for events about the ring instead of requests of the
// application.
func (c *conn) aboutNodes() bool { return frame.Events(c.events.Load())&frame.AboutNodes != 0 }

// announcesEnd reports whether the client wants to receive GRACEFUL_DISCONNECT. Cassandra sends it from v5 on.
func (c *conn) announcesEnd() bool {
	return frame.Events(c.events.Load())&frame.GracefulDisconnect != 0 && c.version >= frame.V5
}

// announceEnd sends GRACEFUL_DISCONNECT. The client then sends no request, and closes the connection when it has all
// answers.
func (c *conn) announceEnd() {
	c.out.Send(appendEvent(c.version, func(dst []byte, _ frame.Version) []byte {
		return frame.AppendGracefulDisconnect(dst)
	}), memory.Held{})
}
