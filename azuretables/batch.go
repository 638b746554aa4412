package azuretables

import (
	"bytes"
	"strings"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// batch handles an entity group transaction: one changeset, which is applied completely or not at all, or one query.
// The changeset's response contains the error of an operation; the status of the whole response is 202 nevertheless.
func (c *call) batch() error {
	limits := &c.server.limits.Entity
	b, err := odata.ParseBatch(c.req.body, c.req.header.contentType, limits)
	var replies []odata.Reply
	changeset := true
	switch {
	case err == nil && !b.Changeset:
		changeset = false
		replies, err = c.batchQuery(&b.Requests[0])
	case err == nil:
		replies, err = c.transaction(b)
	}
	if err != nil {
		reply, inside := c.refusal(b, err)
		if !inside {
			return err
		}
		replies = []odata.Reply{reply}
	}
	r := c.resp
	boundary := "batchresponse_" + c.server.newID()
	r.status, r.contentType = 202, "multipart/mixed; boundary="+boundary
	r.data()
	r.body = odata.AppendReplies(r.body, boundary, "changesetresponse_"+c.server.newID(), changeset, replies)
	return nil
}

// wanted contains the preferences of an operation in a changeset for its response.
type wanted struct {
	prefer string
	level  odata.Metadata
}

// transaction applies the operations of a changeset.
func (c *call) transaction(b *odata.Batch) ([]odata.Reply, error) {
	ops := make([]entity.Operation, len(b.Requests))
	wants := make([]wanted, len(b.Requests))
	rows := make(map[string]struct{}, len(b.Requests))
	first := &b.Requests[0].Path
	var free []odata.Property
	for i := range b.Requests {
		r, op := &b.Requests[i], &ops[i]
		op.Entity.Properties = free
		err := c.inner(r, op, &wants[i])
		free = reserveProperties(op, free, len(ops)-1-i)
		switch _, twice := rows[op.Entity.RowKey]; {
		case err != nil:
		case !strings.EqualFold(r.Path.Table, first.Table):
			err = odata.Of(odata.InvalidInput)
		case op.Entity.PartitionKey != ops[0].Entity.PartitionKey:
			err = odata.Of(odata.CommandsInBatchActOnDifferentPartitions)
		case twice:
			err = odata.Of(odata.InvalidDuplicateRow)
		}
		if err != nil {
			return nil, &entity.Failed{Index: i, Err: err}
		}
		rows[op.Entity.RowKey] = struct{}{}
	}
	if err := c.admit(first.Table, ops[0].Entity.PartitionKey, len(ops)); err != nil {
		return nil, err
	}
	c.plan = planName(entity.PointQuery)
	stamps, err := c.server.o.Service.Apply(&c.request, c.account.name, first.Table, ops)
	if err != nil {
		c.req.kept = true
		return nil, c.named(first.Table, err)
	}
	ctx := c.context(c.spelled(first.Table))
	replies := make([]odata.Reply, len(ops))
	var links strings.Builder
	etag := ""
	for i := range ops {
		if i == 0 || stamps[i] != stamps[i-1] { // they are usually equal
			etag = c.etag(stamps[i])
		}
		ops[i].Entity.Timestamp = stamps[i]
		c.reply(&ops[i], &wants[i], &ctx, etag, &links, &replies[i])
		if i == 0 {
			links.Grow((len(ops) - 1) * (len(replies[i].Location) + linkExtra))
		}
	}
	return replies, nil
}

// linkExtra is the average number of bytes by which the links of a changeset may exceed the first one without a second
// allocation.
const linkExtra = 4

// reserveProperties returns memory for the properties of the operations after op, which has taken its own from free. If
// free is used up, it allocates memory for as many more operations as large as op, within bounds.
func reserveProperties(op *entity.Operation, free []odata.Property, more int) []odata.Property {
	n := len(op.Entity.Properties)
	op.Entity.Properties = op.Entity.Properties[:n:n]
	if n < cap(free) {
		return free[n:n]
	}
	return make([]odata.Property, 0, min(n*more, propertyChunk))
}

// inner parses one operation of a changeset, which has its own headers.
func (c *call) inner(r *odata.Request, op *entity.Operation, w *wanted) error {
	h := headerOf(r)
	var ok bool
	if w.level, ok = parseAccept(h.accept); !ok {
		return odata.Of(odata.AtomFormatNotSupported)
	}
	w.prefer = preference(h.prefer)
	method := r.Method
	if h.method != "" && method == "POST" {
		method = strings.ToUpper(h.method)
	}
	return c.operation(method, &r.Path, &h, r.Body, op)
}

// headerOf returns the headers of an operation in a batch.
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

// reply describes the response to one applied operation. (Recorded: only responses to inserts contain version 3.0.)
func (c *call) reply(op *entity.Operation, w *wanted, ctx *odata.Context, etag string, links *strings.Builder,
	out *odata.Reply) {
	out.Status, out.NoCache, out.Version = 204, true, "1.0"
	if op.Kind != entity.Delete {
		out.ETag = etag
	}
	if op.Kind != entity.Insert {
		return
	}
	e := &op.Entity
	out.Version, out.PreferenceApplied = "3.0", w.prefer
	at := links.Len()
	links.Write(c.link(ctx.Root, ctx.Table, e.PartitionKey, e.RowKey))
	out.Location = links.String()[at:]
	if w.prefer == "return-no-content" {
		out.DataServiceID = out.Location
		return
	}
	out.Status, out.ContentType = 201, w.level.ContentType()
	inner := *ctx
	inner.Level = w.level
	out.Body = inner.AppendEntity(nil, e)
}

// refusal returns the single response to a changeset of which an operation was refused. inside is false if the error
// concerns the whole batch: it is unreadable, or the client should retry it.
func (c *call) refusal(b *odata.Batch, err error) (reply odata.Reply, inside bool) {
	e, known := serviceError(err)
	index, indexed := failedOperation(err)
	if !known || status(e.Code) >= 500 || b == nil && !indexed {
		return reply, false
	}
	level := odata.MinimalMetadata
	if b != nil && index < len(b.Requests) {
		level, _ = parseAccept(b.Requests[index].Field("Accept"))
		reply.PreferenceApplied = preference(b.Requests[index].Field("Prefer"))
	} else {
		reply.PreferenceApplied = firstPreference(c.req.body)
	}
	reply.Status, reply.Version, reply.ContentType, reply.NoCache = status(e.Code), "3.0", level.ContentType(), true
	if e.Code == odata.TableNotFound { // recorded: the service checks the table before the operation's headers
		reply.NoCache, reply.PreferenceApplied = false, ""
	}
	// In the recordings, these two errors of a first operation have no index.
	plain := index == 0 && (e.Code == odata.UpdateConditionNotSatisfied || e.Code == odata.ResourceNotFound)
	if !plain && (b == nil || b.Changeset) {
		e = e.At(index)
	}
	reply.Body = e.AppendJSON(nil, c.id, c.now)
	return reply, true
}

// firstPreference returns the preference of a changeset's first operation if the changeset has too many operations and
// was therefore not parsed completely.
func firstPreference(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte("\nPrefer:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return preference(string(line))
}

// preference returns the value of Prefer if it is one of the two that the service knows.
func preference(prefer string) string {
	switch prefer = strings.TrimSpace(prefer); prefer {
	case "return-no-content", "return-content":
		return prefer
	}
	return ""
}

// batchQuery handles a batch that consists of one GET.
func (c *call) batchQuery(r *odata.Request) ([]odata.Reply, error) {
	inner := call{server: c.server, request: c.request, req: c.req, resp: &response{}, now: c.now, id: c.id,
		method: r.Method, path: r.Path,
		account: c.account, secondary: c.secondary, hostForm: c.hostForm, grant: c.grant}
	inner.path.Account = c.path.Account // for URLs in the response
	defer func() { c.request.Cost, c.plan = inner.request.Cost, inner.plan }()
	var err error
	if inner.params, err = parseParams(r.Query); err != nil {
		return nil, err
	}
	var ok bool
	if inner.level, ok = parseAccept(r.Field("Accept")); !ok {
		return nil, odata.Of(odata.AtomFormatNotSupported)
	}
	switch r.Path.Resource {
	case odata.OneEntity:
		err = inner.get()
	case odata.EntitySet:
		err = inner.query()
	default:
		err = odata.Of(odata.InvalidInput)
	}
	if err != nil {
		return nil, c.named(r.Path.Table, err)
	}
	reply := odata.Reply{Status: inner.resp.status, NoCache: true, Version: "3.0", ContentType: inner.resp.contentType,
		Body: inner.resp.body}
	for _, f := range inner.resp.fields {
		switch f.name {
		case "ETag":
			reply.ETag = f.value
		case "Cache-Control", "X-Content-Type-Options":
		default:
			c.resp.add(f.name, f.value) // the continuation and the cost
		}
	}
	return []odata.Reply{reply}, nil
}
