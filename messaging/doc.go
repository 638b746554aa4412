// Package messaging carries messages between nodes: one-way messages, and requests with one reply, with deadlines and
// a bound on the bytes in flight to each peer.
//
// It does not know rows, replicas or Raft messages, only verbs and bytes. Transport is the interface: StreamTransport
// implements it over the network, and package simulation has an implementation that loses, delays and reorders
// messages.
//
//	coordinator, replica, cluster ──▶ Transport ──▶ connection to the peer ──▶ Handler of the verb
//
// Two nodes have two connections. Each node sends its requests on the connection that it opened, and receives the
// replies there. A connection begins with a handshake, and then carries frames of envelopes. Each side of a connection
// has two goroutines:
//
//	sender ──append──▶ link.buffer ──writer──▶ network ──▶ reader ──calls──▶ Handler or Reply
//
// The writer writes everything that senders appended since its last write. The reader calls handlers that do not
// block, and passes the others to a pool of workers.
package messaging
