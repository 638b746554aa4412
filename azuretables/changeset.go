package azuretables

import (
	"strings"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// changeset is a transaction: operations on entities of one partition. parse precedes apply. The service's limits of
// 100 operations and of the body's size are enforced by odata.ParseBatch. All operations have one timestamp, so their
// ETags are equal.
type changeset struct {
	call      *call
	requests  []odata.Request
	table     string             // of the first operation
	ops       []entity.Operation // of the requests, in the same order
	wants     []wanted           // of the operations, in the same order
	locations strings.Builder    // the URLs of inserted entities
}

// wanted contains the preferences of an operation in a changeset for its response. They are kept from parse to apply,
// because the replies are written in the end.
type wanted struct {
	prefer string
	level  odata.Metadata
}

// newChangeset allocates the operations of a changeset, which has at least one. Its fields have the length of requests
// from the start, so that pointers into them stay valid.
func newChangeset(c *call, requests []odata.Request) *changeset {
	return &changeset{
		call:     c,
		requests: requests,
		table:    requests[0].Path.Table,
		ops:      make([]entity.Operation, len(requests)),
		wants:    make([]wanted, len(requests)),
	}
}

// parse parses the operations, and checks that they are about different entities of one partition. Its error is
// entity.Failed with the index of the operation. The first operation determines the table and the partition.
func (t *changeset) parse() error {
	// RowKey identifies an entity, because all operations have the same partition.
	rows := make(map[string]struct{}, len(t.requests))
	// All operations share a few arrays of properties (reserveProperties).
	var free []odata.Property
	for i := range t.requests {
		r, op := &t.requests[i], &t.ops[i]
		op.Entity.Properties = free
		err := t.parseOne(r, op, &t.wants[i])
		free = reserveProperties(op, free, len(t.ops)-1-i)
		// The keys are compared even if parsing failed: rows gets a key only if there was no error.
		switch _, twice := rows[op.Entity.RowKey]; {
		case err != nil:
		// Names of tables are compared without case, as everywhere in the service.
		case !strings.EqualFold(r.Path.Table, t.table):
			err = odata.Of(odata.InvalidInput)
		case op.Entity.PartitionKey != t.ops[0].Entity.PartitionKey:
			err = odata.Of(odata.CommandsInBatchActOnDifferentPartitions)
		case twice:
			err = odata.Of(odata.InvalidDuplicateRow)
		}
		if err != nil {
			// The index is the operation's position in the changeset, from 0.
			return &entity.Failed{Index: i, Err: err}
		}
		rows[op.Entity.RowKey] = struct{}{}
	}
	return nil
}

// parseOne parses one operation, which has its own headers. Content-ID and other headers of a part are ignored.
func (t *changeset) parseOne(r *odata.Request, op *entity.Operation, w *wanted) error {
	h := headerOf(r)
	var ok bool
	if w.level, ok = parseAccept(h.accept); !ok {
		return odata.Of(odata.AtomFormatNotSupported)
	}
	w.prefer = preference(h.prefer)
	// The method of an operation may be tunnelled through POST, too.
	method := r.Method
	if h.method != "" && method == "POST" {
		method = strings.ToUpper(h.method)
	}
	parser := changeParser{t.call.account.name, t.call.grant, &t.call.server.limits.Entity}
	return parser.parse(method, &r.Path, &h, r.Body, op)
}

// linkExtra is the average number of bytes by which the links of a changeset may exceed the first one without a second
// allocation.
const linkExtra = 4

// reserveProperties returns memory for the properties of the operations after op, which has taken its own from free. If
// free is used up, it allocates memory for as many more operations as large as op, within bounds. It halves the
// allocations of a changeset of a hundred small entities.
func reserveProperties(op *entity.Operation, free []odata.Property, more int) []odata.Property {
	n := len(op.Entity.Properties)
	// The capacity is cut, so that an append to this operation's properties cannot write into the next one's.
	op.Entity.Properties = op.Entity.Properties[:n:n]
	if n < cap(free) {
		return free[n:n]
	}
	// Operations of a changeset are usually alike. more is the number of operations that follow.
	return make([]odata.Property, 0, min(n*more, propertyChunk))
}

// apply applies the operations and returns their replies. After an error, nothing was applied, or the outcome is
// unknown (OperationTimedOut).
func (t *changeset) apply() ([]odata.Reply, error) {
	c := t.call
	// The throttle admits the changeset as a whole: all operations count for one partition.
	if err := c.server.rates.admit(c.account.name, t.table, t.ops[0].Entity.PartitionKey, len(t.ops)); err != nil {
		return nil, err
	}
	c.plan = planName(entity.PointQuery)
	stamps, err := c.server.o.Service.Apply(&c.request, c.account.name, t.table, t.ops)
	// An operation whose outcome is unknown may still read the body; the connection must not reuse it.
	if err != nil {
		c.req.kept = true
		return nil, c.named(t.table, err)
	}
	// Replies show the table's name as it was created. ctx is shared, its level is of each operation.
	ctx := c.context(c.spelled(t.table))
	replies := make([]odata.Reply, len(t.ops))
	etag := ""
	for i := range t.ops {
		if i == 0 || stamps[i] != stamps[i-1] { // they are usually equal
			etag = c.links.etag(stamps[i])
		}
		t.ops[i].Entity.Timestamp = stamps[i]
		t.reply(&t.ops[i], &t.wants[i], &ctx, etag, &replies[i])
		// The links differ in the row key only, so the first is a good estimate of the others.
		if i == 0 {
			t.locations.Grow((len(t.ops) - 1) * (len(replies[i].Location) + linkExtra))
		}
	}
	return replies, nil
}

// reply describes the response to one applied operation. (Recorded: only responses to inserts contain version 3.0.)
// DataServiceId repeats the location if the client wants no content. out is zero before.
func (t *changeset) reply(op *entity.Operation, w *wanted, ctx *odata.Context, etag string, out *odata.Reply) {
	out.Status, out.NoCache, out.Version = 204, true, "1.0"
	if op.Kind != entity.Delete {
		out.ETag = etag
	}
	// Updates, merges and deletes have no location and no body.
	if op.Kind != entity.Insert {
		return
	}
	e := &op.Entity
	out.Version, out.PreferenceApplied = "3.0", w.prefer
	at := t.locations.Len()
	// A string of the builder stays valid while the builder grows, because it never changes written bytes.
	t.locations.Write(t.call.links.entity(ctx.Root, ctx.Table, e.PartitionKey, e.RowKey))
	out.Location = t.locations.String()[at:]
	if w.prefer == "return-no-content" {
		out.DataServiceID = out.Location
		return
	}
	out.Status, out.ContentType = 201, w.level.ContentType()
	// The context is copied, because the levels of operations may differ.
	inner := *ctx
	inner.Level = w.level
	out.Body = inner.AppendEntity(nil, e)
}

// headerOf returns the headers of an operation in a batch. Names are compared without case. A repeated header has its
// last value. Other headers of an operation are ignored. The result refers to the strings of r.
func headerOf(r *odata.Request) (h header) {
	for _, f := range r.Fields {
		switch {
		case strings.EqualFold(f.Name, "Accept"):
			h.accept = f.Value
		case strings.EqualFold(f.Name, "Content-Type"):
			h.contentType = f.Value
		case strings.EqualFold(f.Name, "Prefer"):
			h.prefer = f.Value
		case strings.EqualFold(f.Name, "If-Match"):
			h.ifMatch = f.Value
		case strings.EqualFold(f.Name, "X-HTTP-Method"):
			h.method = f.Value
		case strings.EqualFold(f.Name, "x-cqld-ttl"):
			h.ttl = f.Value
		}
	}
	return h
}
