// Package messaging carries messages between nodes: one-way messages, and requests with one reply, with deadlines and
// a bound on the bytes in flight to each peer.
//
// It does not know rows, replicas or Raft messages, only verbs and bytes. Transport is the interface: GRPC implements
// it over the network, and package simulation has an implementation that loses, delays and reorders messages.
//
//	coordinator, replica, cluster ──▶ Transport ──▶ stream to the peer ──▶ Handler of the verb
package messaging
