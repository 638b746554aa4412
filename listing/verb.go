package listing

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// Replicas lists the keys that nodes hold, this one included. Page returns at once and calls done exactly once,
// possibly before it returns. The caller owns the page, and must not change q until done is called. trace may be nil. A
// node that knows of a later change of the ring than epoch, or of an earlier one than q.Moved, refuses with
// coordinator.NotReplica.
type Replicas interface {
	Page(to ring.NodeID, trace coordinator.Trace, epoch uint64, q *PageRequest, timeout time.Duration,
		done func(*Page, error))
}

// Directory implements Replicas: it calls the Replica of this node, and sends messages to other nodes.
type Directory struct {
	self      func() ring.NodeID
	replica   *Replica
	transport messaging.Transport
}

var _ Replicas = (*Directory)(nil)

// NewDirectory returns the Directory of the node whose Replica is r.
func NewDirectory(r *Replica, transport messaging.Transport, view coordinator.View) *Directory {
	return &Directory{self: view.Self, replica: r, transport: transport}
}

// Page implements Replicas.
func (d *Directory) Page(to ring.NodeID, trace coordinator.Trace, epoch uint64, q *PageRequest, timeout time.Duration,
	done func(*Page, error)) {
	// Also for this node, which a trace lists like the others.
	coordinator.AddContact(trace, to)
	if to == d.self() {
		d.replica.Page(epoch, q, done)
		return
	}
	transport := d.transport
	if trace != nil {
		transport = replica.TracedTransport(transport, trace)
	}
	messaging.RequestCancelable(transport, to, messaging.VerbPartitions, appendPageRequest(nil, epoch, q), timeout,
		q.Cancel, func(reply []byte, err error) {
			if err != nil {
				done(nil, replica.FromRemote(err))
				return
			}
			// The page points into the reply, which belongs to the transport.
			done(decodePage(slices.Clone(reply)))
		})
}

// Serve makes transport answer the requests of other nodes from r. It is called before the transport starts.
//
//	VerbPartitions   epoch, moved, table, flags (1), limit, now (8), from, to
//	                 reply: more (1), scanned, last, n, n × key
func Serve(transport messaging.Transport, r *Replica) {
	messaging.Register(transport, messaging.Service{Verb: messaging.VerbPartitions, Name: "partitions", Blocking: true,
		Call: func(c messaging.Call, respond messaging.Respond) {
			epoch, q, err := decodePageRequest(c.Payload)
			var page *Page
			if err == nil {
				q.Cancel = c.Cancel
				// This worker calls remotePage directly, because Page would queue the request again.
				page, err = r.remotePage(epoch, q)
			}
			if err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			respond(appendPage(nil, page), nil)
		}})
}

// The flags of a PageRequest.
const (
	// Bits of one byte. Values are part of the protocol between nodes.
	flagReversed = 1 << iota
	flagDead
)

// appendPageRequest encodes the request of VerbPartitions. An empty To and a nil one differ: nil means no end.
func appendPageRequest(dst []byte, epoch uint64, q *PageRequest) []byte {
	var flags byte
	if q.Reversed {
		flags |= flagReversed
	}
	if q.Dead {
		flags |= flagDead
	}
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, epoch), q.Moved)
	dst = append(wire.AppendUvarint(dst, uint64(q.Table)), flags)
	dst = wire.AppendInt64(wire.AppendUvarint(dst, uint64(q.Limit)), q.Now)
	return wire.AppendBytes(wire.AppendBytes(dst, q.Span.From), q.Span.To)
}

// decodePageRequest is the inverse of appendPageRequest. The span points into payload.
func decodePageRequest(payload []byte) (epoch uint64, q *PageRequest, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	q = &PageRequest{Moved: c.Uvarint(), Table: schema.StorageID(c.Uvarint())}
	flags := c.Uint8()
	q.Reversed, q.Dead = flags&flagReversed != 0, flags&flagDead != 0
	// The requester must not make this node collect more keys.
	q.Limit = int(min(c.Uvarint(), pageKeysMax))
	q.Now = c.Int64()
	q.Span = Span{From: c.Bytes(), To: c.Bytes()}
	return epoch, q, c.Finish()
}

// appendPage encodes the reply of VerbPartitions.
func appendPage(dst []byte, p *Page) []byte {
	var more byte
	if p.More {
		more = 1
	}
	dst = wire.AppendUvarint(append(dst, more), uint64(p.Scanned))
	dst = wire.AppendBytes(dst, p.Last)
	dst = wire.AppendUvarint(dst, uint64(len(p.Keys)))
	for _, key := range p.Keys {
		dst = wire.AppendShortBytes(dst, key)
	}
	return dst
}

// decodePage is the inverse of appendPage. The page points into payload.
func decodePage(payload []byte) (*Page, error) {
	c := wire.NewCursor(payload)
	p := &Page{More: c.Uint8() == 1, Scanned: int(min(c.Uvarint(), 1<<31)), Last: c.Bytes()}
	const sizeMin = 2
	// Count compares the number with the remaining bytes, so a false number allocates nothing.
	if n := c.Count(sizeMin); n > 0 {
		p.Keys = make([][]byte, 0, n)
		for range n {
			p.Keys = append(p.Keys, c.ShortBytes())
		}
	}
	if p.More && p.Last == nil {
		c.Fail(wire.ErrMalformed) // the next request would not know where to begin
	}
	if err := c.Finish(); err != nil {
		return nil, err
	}
	return p, nil
}
