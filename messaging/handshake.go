package messaging

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"cqld/internal/wire"
	"cqld/ring"
)

// ProtocolVersion is the newest version of the internode protocol that this build speaks, and OldestProtocol the oldest
// one. Two nodes speak the newest version that both do. It is the version of the handshake, of frames and of
// envelopes. Payloads of messages have the cluster version instead: a node sends a newer form only when the cluster
// version enables it, so that no connection needs to know what the receiver reads.
//
//	8  hellos contain the oldest version, so that nodes of different releases agree on one
const (
	ProtocolVersion = 8
	OldestProtocol  = 8
)

// Protocols are the versions of the internode protocol that a node speaks.
type Protocols struct{ Oldest, Newest uint16 }

// common returns the version that two nodes speak. ok is false if they have none in common.
func (p Protocols) common(peer Protocols) (version uint16, ok bool) {
	version = min(p.Newest, peer.Newest)
	return version, version >= max(p.Oldest, peer.Oldest)
}

// String returns the versions, such as version 8, or versions 8 to 9.
func (p Protocols) String() string {
	if p.Oldest == p.Newest {
		return fmt.Sprintf("version %d", p.Newest)
	}
	return fmt.Sprintf("versions %d to %d", p.Oldest, p.Newest)
}

// A connection begins with a hello of the node that opens it, and an answer of the other node. Frames follow. version
// is the newest version of the sender in a hello and in a refusal, and the version of the connection in an answer that
// accepts it. Later versions of the protocol may append fields to bodies, which earlier ones ignore, and change
// nothing else of the handshake.
//
//	hello  := magic(4) version(2) length(2) body checksum(4)
//	answer := magic(4) version(2) length(2) body checksum(4)
//
//	body of a hello            := cluster(16) node(8) oldest(2)
//	body of an answer, accept  := 0 cluster(16) node(8)
//	body of an answer, refusal := 1 message
//	body of an answer, notice  := 2 message
//
// length counts the bytes of the body. checksum is the CRC-32C of all bytes before it. cluster is a hash of the name of
// the cluster, and of its last recovery: a node of another cluster does not learn the name. node is the id of the
// sender, or 0 when it has none yet; such a node names the cluster as if it was never recovered, and so does the answer
// to it. The notice refuses a node of the cluster before a recovery (Lineage).
const (
	handshakeMagic  = "cqld"
	handshakeHeader = len(handshakeMagic) + 2 + 2
	handshakeSum    = 4
)

// The first byte of an answer's body.
const (
	handshakeAccepted = iota
	handshakeRefused
	handshakeSuperseded
)

var (
	errNotHandshake     = errors.New("messaging: the peer does not speak the internode protocol")
	errHandshakeDamaged = errors.New("messaging: the checksum of a handshake is wrong")
	errAnotherNode      = errors.New("messaging: another node answers at the address")
	// errSuperseded refuses a node of the cluster before a recovery.
	errSuperseded = errors.New("the node belongs to the cluster before a recovery")
)

// otherCluster describes a peer of another cluster.
const otherCluster = "belongs to another cluster: cluster_name differs, or the cluster was recovered without one of " +
	"the two"

// appendHandshake appends a hello or an answer.
func appendHandshake(dst []byte, version uint16, body []byte) []byte {
	start := len(dst)
	dst = append(dst, handshakeMagic...)
	dst = wire.AppendUint16(dst, version)
	dst = wire.AppendUint16(dst, uint16(len(body)))
	dst = append(dst, body...)
	return wire.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// readHandshake reads a hello or an answer, and not more.
func readHandshake(r io.Reader) (version uint16, body []byte, err error) {
	b := make([]byte, handshakeHeader, 128)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	c := wire.NewCursor(b)
	if !bytes.Equal(c.Take(len(handshakeMagic)), []byte(handshakeMagic)) {
		return 0, nil, errNotHandshake
	}
	version = c.Uint16()
	n := int(c.Uint16())
	// The peer is not known yet, and gets no memory for a length that it only declares.
	if n > handshakeBytes {
		return 0, nil, fmt.Errorf("messaging: a handshake of %d bytes: at most %d are allowed", n, handshakeBytes)
	}
	rest := make([]byte, n+handshakeSum)
	// Exactly the handshake is read: the next byte belongs to the first frame.
	if _, err := io.ReadFull(r, rest); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	sum := wire.NewCursor(rest[n:])
	if crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, rest[:n]) != sum.Uint32() {
		return 0, nil, errHandshakeDamaged
	}
	return version, rest[:n], nil
}

// appendIdentity appends a cluster and the id of a node.
func appendIdentity(dst []byte, cluster clusterID, node ring.NodeID) []byte {
	return wire.AppendUint64(append(dst, cluster[:]...), uint64(node))
}

// consumeIdentity decodes the encoding of appendIdentity.
func consumeIdentity(c *wire.Cursor) (cluster clusterID, node ring.NodeID, err error) {
	cluster = clusterID(c.UUID())
	node = ring.NodeID(c.Uint64())
	// A newer version may append fields.
	return cluster, node, c.Err()
}

// appendHello appends the body of a hello.
func appendHello(dst []byte, cluster clusterID, node ring.NodeID, oldest uint16) []byte {
	return wire.AppendUint16(appendIdentity(dst, cluster, node), oldest)
}

// accept answers the hello of a peer on conn, which is inbound or TLS over it and has the deadline of secure. It
// returns the node id that the peer sent.
func (t *StreamTransport) accept(conn net.Conn, inbound *inboundConn) (ring.NodeID, error) {
	version, body, err := readHandshake(conn)
	if err != nil {
		return 0, err
	}
	agreed, cluster, from, refusal := t.checkHello(version, body, inbound)
	// The sender's cluster is the one of this node, unless the sender has no id and knows only the name.
	answer := appendIdentity([]byte{handshakeAccepted}, cluster, t.self())
	if refusal != nil {
		agreed = t.opts.Protocols.Newest
	}
	switch {
	case errors.Is(refusal, errSuperseded):
		answer = append([]byte{handshakeSuperseded}, t.identities.Load().notice...)
	case refusal != nil:
		answer = append([]byte{handshakeRefused}, refusal.Error()...)
	}
	// A refusal is sent, too, so that the log of the peer contains the reason.
	if _, err := conn.Write(appendHandshake(nil, agreed, answer)); err != nil {
		return 0, err
	}
	if refusal != nil {
		return 0, refusal
	}
	return from, conn.SetDeadline(time.Time{})
}

// checkHello checks a hello, and binds its connection. The refusals do not reveal the cluster's name. A peer that is
// not bound is accepted here; what it may use is decided for each message.
func (t *StreamTransport) checkHello(version uint16, body []byte, inbound *inboundConn) (agreed uint16,
	cluster clusterID, from ring.NodeID, err error) {
	c := wire.NewCursor(body)
	cluster, from, err = consumeIdentity(&c)
	peer := Protocols{Oldest: c.Uint16(), Newest: version}
	if err == nil {
		err = c.Err()
	}
	// Builds before version 8 name only one version.
	if version < firstNegotiated {
		peer.Oldest, err = version, nil
	}
	agreed, ok := t.opts.Protocols.common(peer)
	own := t.identities.Load()
	switch {
	case err != nil || peer.Oldest > peer.Newest:
		return 0, cluster, 0, errors.New("the handshake is malformed")
	case !ok:
		return 0, cluster, 0, fmt.Errorf("the node speaks internode protocol %v, this node %v: their releases are too "+
			"far apart", peer, t.opts.Protocols)
	// A new node learns the recoveries with its admission.
	case cluster == own.present, cluster == own.unrecovered && from == 0:
	case own.precedes(cluster):
		return 0, cluster, 0, errSuperseded
	default:
		return 0, cluster, 0, errors.New("the node " + otherCluster)
	}
	if !t.conns.state(inbound, from, cluster) {
		return 0, cluster, 0, errors.New("the node id in the handshake is this node's own")
	}
	return agreed, cluster, from, nil
}

// firstNegotiated is the first version of the protocol whose hellos name the oldest version of the sender.
const firstNegotiated = 8

// open connects to addr, where node id is expected unless it is zero.
func (t *StreamTransport) open(ctx context.Context, addr netip.AddrPort, id ring.NodeID) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	s := t.opts.Security
	if s == nil {
		return t.openAs(ctx, addr, id, nil)
	}
	if s.Encrypts(addr) {
		conn, err := t.openAs(ctx, addr, id, s.Client(addr))
		// Only if the node sent no byte: a node that fails during TLS must not be reached without it.
		if errors.Is(err, errNotTLS) && s.FallsBack(addr) {
			return t.openAs(ctx, addr, id, nil)
		}
		return conn, err
	}
	conn, err := t.openAs(ctx, addr, id, nil)
	// The node may require encryption, which this node cannot know.
	if err != nil && unanswered(err) {
		if encrypted, second := t.openAs(ctx, addr, id, s.Client(addr)); second == nil {
			return encrypted, nil
		}
	}
	return conn, err
}

// openAs is open with a TLS configuration; nil means no encryption.
func (t *StreamTransport) openAs(ctx context.Context, addr netip.AddrPort, id ring.NodeID,
	config *tls.Config) (net.Conn, error) {
	raw, err := t.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := raw
	// a closed connection has no deadline. A deadline in the past ends reads and writes that are in progress.
	interrupt := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	if config != nil {
		conn, err = t.secureClient(ctx, raw, config, addr)
	}
	if err == nil {
		err = alerted(t.introduce(conn, id))
	}
	// The function has run, so the connection has a deadline and cannot be used.
	if !interrupt() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close() // it is closed even after an error
		return nil, err
	}
	return conn, nil
}

// introduce sends a hello and checks the answer. A node that answers at another node's address must not get that node's
// messages. A node that does not know its id yet is about to learn it.
func (t *StreamTransport) introduce(conn net.Conn, want ring.NodeID) error {
	// The id is read before the cluster, which is set first: with an id, a hello names the cluster that gave it.
	self := t.self()
	own, speaks := t.identities.Load().present, t.opts.Protocols
	hello := appendHello(nil, own, self, speaks.Oldest)
	if _, err := conn.Write(appendHandshake(nil, speaks.Newest, hello)); err != nil {
		return err
	}
	version, body, err := readHandshake(conn)
	switch {
	case err != nil:
		return fmt.Errorf("messaging: the peer did not answer the handshake: %w", err)
	case len(body) == 0:
		return errNotHandshake
	case body[0] == handshakeSuperseded:
		// Quoted, because it is the text of another process; without the quotes, because it is a sentence.
		notice := strings.Trim(fmt.Sprintf("%.500q", body[1:]), `"`)
		if t.opts.Superseded != nil {
			t.opts.Superseded(notice)
		}
		return errors.New("messaging: the peer refused the connection: " + notice)
	case body[0] == handshakeRefused:
		return fmt.Errorf("messaging: the peer refused the connection: %.200q", body[1:])
	}
	c := wire.NewCursor(body[1:])
	cluster, node, err := consumeIdentity(&c)
	switch {
	case version < speaks.Oldest || version > speaks.Newest:
		return fmt.Errorf("messaging: the peer chose internode protocol version %d, this node speaks %v", version,
			speaks)
	case err != nil || body[0] != handshakeAccepted:
		return errNotHandshake
	case cluster != own:
		return errors.New("messaging: the peer " + otherCluster)
	case want != 0 && node != 0 && node != want:
		return errAnotherNode
	}
	return nil
}
