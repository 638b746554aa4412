// Package messaging carries requests between nodes: one-way messages and requests with one reply,
// with deadlines and bounded bytes in flight for each peer.
//
// It knows no row, no replica and no Raft message: a verb and bytes. Transport is the seam: GRPC is
// the real one, simulation has one that loses, delays and reorders.
//
//	coordinator, replica, cluster ──▶ Transport ──▶ stream to the peer ──▶ Handler of the verb
package messaging
