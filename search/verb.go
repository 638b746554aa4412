package search

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"
)

// Directory implements Replicas: it calls the Replica of this node, and sends messages to other nodes. It has no state
// of its own.
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

// Page implements Replicas. A timeout is an error of package coordinator, as for reads.
func (d *Directory) Page(to ring.NodeID, trace coordinator.Trace, epoch uint64, q *PageRequest, timeout time.Duration,
	done func(*Page, error)) {
	coordinator.AddContact(trace, to)
	if to == d.self() {
		d.replica.Page(epoch, q, done)
		return
	}
	transport := d.transport
	if trace != nil {
		transport = replica.TracedTransport(transport, trace)
	}
	messaging.RequestCancelable(transport, to, messaging.VerbSearch, appendPageRequest(nil, epoch, q), timeout,
		q.Cancel, func(reply []byte, err error) {
			if err != nil {
				done(nil, replica.FromRemote(err))
				return
			}
			// The reply is only valid during the call, and the candidates point into it.
			done(decodePage(slices.Clone(reply)))
		})
}

// Serve makes transport answer the requests of other nodes from r. It is called before the transport starts.
//
//	VerbSearch   epoch, moved, index, order (1), from, near, terms, read command;
//	             with the bit united in order: n, n × (index, terms)
//	             terms := n, n × (start, end)
//	             reply: more (1), scanned, last, n, n × (position, page)
func Serve(transport messaging.Transport, r *Replica) {
	messaging.Register(transport, messaging.Service{Verb: messaging.VerbSearch, Name: "search", Blocking: true,
		Call: func(c messaging.Call, respond messaging.Respond) {
			epoch, q, err := decodePageRequest(c.Payload)
			var page *Page
			if err == nil {
				q.Cancel = c.Cancel
				page, err = r.remotePage(epoch, q)
			}
			if err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			respond(appendPage(nil, page), nil)
		}})
}

// appendPageRequest appends the request as Serve documents it. A read command carries the fields that both have. Limit
// is cut to 32 bits, and the command's Range has the tokens.
func appendPageRequest(dst []byte, epoch uint64, q *PageRequest) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, epoch), q.Moved)
	order := byte(q.Order)
	if len(q.Union) > 0 {
		order |= united
	}
	dst = append(wire.AppendUvarint(dst, uint64(q.Index)), order)
	dst = wire.AppendBytes(wire.AppendBytes(dst, q.From), q.Near)
	dst = appendTerms(dst, q.Terms)
	cmd := row.ReadCommand{
		Table: q.Table, Key: q.Key, Range: row.KeyRange{Tokens: q.Tokens}, Slices: q.Slices, Reversed: q.Reversed,
		Limits: row.Limits{Rows: uint32(q.Limit)}, Now: q.Now, Filter: q.Filter,
	}
	// A read command without slices would select no rows.
	if cmd.Slices == nil {
		cmd.Slices = []row.Slice{row.AllRows()}
	}
	dst = row.AppendReadCommand(dst, &cmd)
	if len(q.Union) > 0 {
		dst = wire.AppendUvarint(dst, uint64(len(q.Union)))
	}
	for _, b := range q.Union {
		dst = appendTerms(wire.AppendUvarint(dst, uint64(b.Index)), b.Terms)
	}
	return dst
}

// united is the bit in the order of a request that has a union. A node that does not know it refuses the order.
const united = 0x80

// appendTerms appends intervals. AppendBytes keeps nil apart from an empty bound.
func appendTerms(dst []byte, terms []row.Slice) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(terms)))
	for _, t := range terms {
		dst = wire.AppendBytes(wire.AppendBytes(dst, t.Start), t.End)
	}
	return dst
}

// consumeTerms decodes intervals, which point into the bytes of c.
func consumeTerms(c *wire.Cursor) (terms []row.Slice) {
	const sizeMin = 8
	for n := c.Count(sizeMin); n > 0; n-- {
		terms = append(terms, row.Slice{Start: c.Bytes(), End: c.Bytes()})
	}
	return terms
}

// decodePageRequest is the inverse of appendPageRequest. The request points into payload.
func decodePageRequest(payload []byte) (epoch uint64, q *PageRequest, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	q = &PageRequest{Moved: c.Uvarint(), Index: schema.StorageID(c.Uvarint())}
	order := c.Uint8()
	q.Order, q.From, q.Near = Order(order&^united), Position(c.Bytes()), c.Bytes()
	q.Terms = consumeTerms(&c)
	var cmd row.ReadCommand
	row.ConsumeReadCommand(&c, &cmd)
	q.Table, q.Key, q.Tokens, q.Reversed = cmd.Table, cmd.Key, cmd.Range.Tokens, cmd.Reversed
	// Another node may send any limit.
	q.Limit, q.Now, q.Filter = int(min(cmd.Limits.Rows, pageLimitMax)), cmd.Now, cmd.Filter
	// The inverse of what appendPageRequest does for all rows.
	if q.Slices = cmd.Slices; len(q.Slices) == 1 && len(q.Slices[0].Start) == 0 && q.Slices[0].End == nil {
		q.Slices = nil
	}
	if order&united != 0 {
		const sizeMin = 2
		for n := c.Count(sizeMin); n > 0; n-- {
			q.Union = append(q.Union, Branch{Index: schema.StorageID(c.Uvarint()), Terms: consumeTerms(&c)})
		}
	}
	return epoch, q, c.Finish()
}

// appendPage appends the reply.
func appendPage(dst []byte, p *Page) []byte {
	var more byte
	if p.More {
		more = 1
	}
	dst = wire.AppendUvarint(append(dst, more), uint64(p.Scanned))
	dst = wire.AppendBytes(dst, p.Last)
	dst = wire.AppendUvarint(dst, uint64(len(p.Candidates)))
	for _, c := range p.Candidates {
		dst = wire.AppendBytes(wire.AppendBytes(dst, c.At), c.Page)
	}
	return dst
}

// decodePage is the inverse of appendPage. The page points into payload. sizeMin is the least size of an element, by
// which Count refuses a number that the payload cannot contain, before memory is allocated for it.
func decodePage(payload []byte) (*Page, error) {
	c := wire.NewCursor(payload)
	p := &Page{More: c.Uint8() == 1, Scanned: int(min(c.Uvarint(), 1<<31)), Last: Position(c.Bytes())}
	const sizeMin = 8
	if n := c.Count(sizeMin); n > 0 {
		p.Candidates = make([]index.Candidate, 0, n)
		for range n {
			p.Candidates = append(p.Candidates, index.Candidate{At: Position(c.Bytes()), Page: c.Bytes()})
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
