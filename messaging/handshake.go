package messaging

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"cqld/ring"
)

// outgoing adds the handshake to a stream's context.
func (t *GRPC) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headerCluster, t.cluster,
		headerVersion, strconv.Itoa(ProtocolVersion), headerNode, t.selfHeader())
}

func (t *GRPC) selfHeader() string { return strconv.FormatUint(uint64(t.self()), 10) }

// handshake checks the handshake of a stream and returns its connection. Refusals do not disclose the cluster's name.
func (t *GRPC) handshake(ctx context.Context) (*inboundConn, ring.NodeID, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	get := func(k string) string {
		if v := md.Get(k); len(v) == 1 {
			return v[0]
		}
		return ""
	}
	if got := get(headerVersion); got != strconv.Itoa(ProtocolVersion) {
		return nil, 0, status.Errorf(codes.FailedPrecondition, "internode protocol version %.20q is not %d", got, ProtocolVersion)
	}
	if get(headerCluster) != t.cluster {
		return nil, 0, status.Error(codes.FailedPrecondition, "the node belongs to another cluster: cluster_name differs")
	}
	id, err := strconv.ParseUint(get(headerNode), 10, 64)
	if err != nil {
		return nil, 0, status.Error(codes.FailedPrecondition, "the node id in the handshake is not a number")
	}
	p, _ := grpcpeer.FromContext(ctx)
	if p == nil {
		return nil, 0, status.Error(codes.Internal, "the stream has no connection")
	}
	a, ok := p.Addr.(connAddr)
	if !ok {
		return nil, 0, status.Error(codes.Internal, "the stream has no connection")
	}
	if !t.conns.state(a.conn, ring.NodeID(id)) {
		return nil, 0, status.Error(codes.PermissionDenied, "the node id in the handshake is this node's, or differs from that of another stream of the connection")
	}
	return a.conn, ring.NodeID(id), nil
}

// serve handles a stream that a peer opened.
func (t *GRPC) serve(s grpc.ServerStream) error {
	conn, from, err := t.handshake(s.Context())
	if err != nil {
		t.refused.note("handshake", 0, err)
		return err
	}
	if err := s.SendHeader(metadata.Pairs(headerCluster, t.cluster, headerNode, t.selfHeader())); err != nil {
		return err
	}
	l := newLink(t, &conn.bound)
	in := newInbound(t, l, conn, from)
	var writer sync.WaitGroup
	writer.Go(func() { _ = l.write(s) }) // after an error, the reader ends, too
	err = l.read(s, in.receive)
	in.cancelAll()
	in.running.Wait()
	l.close()
	writer.Wait()
	return err
}

// errUnexpectedKind refuses a reply on a stream that carries requests.
var errUnexpectedKind = errors.New("messaging: the envelope is neither a request nor a one-way message")
