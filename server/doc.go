// Package server implements the CQL server: it accepts connections, performs the handshake of the native protocol,
// passes every request to a Processor and sends the result, and pushes events to the clients that registered for
// them.
//
// It does not know what a statement means (package query) or how a message is encoded (package frame). It is the one
// place that translates typed errors into protocol errors (error.go), and it bounds what clients can use on a node
// (limits.go, edge.go). A conn is assembled from parts: a reader (reader.go, segment.go, receive.go, dispatch.go), the
// memory of its requests (package account), the queue of its replies (package output), requests that wait (park.go),
// and the end during a drain (drain.go, package drain).
//
// One connection:
//
//	          ┌─ reader ─────────────┐   job    ┌─ worker (bounded per node) ──┐
//	socket ──▶│ segments, envelopes, │ ───────▶ │ decode body, Processor,      │
//	          │ handshake, admission │          │ append reply to its queue    │
//	          └──────────┬───────────┘          └──────────────┬───────────────┘
//	                     │ handshake replies, refusals         │
//	                     ▼                                     ▼
//	          ┌─ output.Queue: one per connection, under its lock ─────────────┐
//	          └──────────┬─────────────────────────────────────────────────────┘
//	                     ▼ flusher, which runs only while there is output
//	socket ◀── everything that is ready, in one write
//
// The reader is the only goroutine of an idle connection. Requests of one connection run concurrently and are
// answered in any order. The memory of a request counts against its connection and the node until its reply has been
// written to the socket.
package server
