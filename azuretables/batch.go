package azuretables

import (
	"bytes"
	"strings"

	"cqld/azuretables/odata"
)

// batch is an entity group transaction in progress: one changeset, which is applied completely or not at all, or one
// query. The changeset's response contains the error of an operation; the status of the whole response is 202
// nevertheless.
type batch struct {
	call *call
	// parsed is nil if the body is unreadable.
	parsed *odata.Batch
}

func (b *batch) run() error {
	c := b.call
	replies, err := b.replies()
	if err != nil {
		reply, inside := b.refusal(err)
		if !inside {
			return err
		}
		replies = []odata.Reply{reply}
	}
	r := c.resp
	boundary := "batchresponse_" + c.server.newID()
	r.status, r.contentType = 202, "multipart/mixed; boundary="+boundary
	r.data()
	r.body = odata.AppendReplies(r.body, boundary, "changesetresponse_"+c.server.newID(), b.isChangeset(), replies)
	return nil
}

// replies parses and executes the batch.
func (b *batch) replies() (replies []odata.Reply, err error) {
	c := b.call
	b.parsed, err = odata.ParseBatch(c.req.body, c.req.header.contentType, &c.server.limits.Entity)
	switch {
	case err != nil:
		return nil, err
	case !b.parsed.Changeset:
		return b.query(&b.parsed.Requests[0])
	}
	t := newChangeset(c, b.parsed.Requests)
	if err := t.parse(); err != nil {
		return nil, err
	}
	return t.apply()
}

// isChangeset reports whether the response is that to a changeset; an unreadable body counts as one.
func (b *batch) isChangeset() bool { return b.parsed == nil || b.parsed.Changeset }

// refusal returns the single response to a changeset of which an operation was refused. inside is false if the error
// concerns the whole batch: it is unreadable, or the client should retry it.
func (b *batch) refusal(err error) (reply odata.Reply, inside bool) {
	e, known := serviceError(err)
	index, indexed := failedOperation(err)
	if !known || status(e.Code) >= 500 || b.parsed == nil && !indexed {
		return reply, false
	}
	level := odata.MinimalMetadata
	if b.parsed != nil && index < len(b.parsed.Requests) {
		refused := &b.parsed.Requests[index]
		level, _ = parseAccept(refused.Field("Accept"))
		reply.PreferenceApplied = preference(refused.Field("Prefer"))
	} else {
		reply.PreferenceApplied = firstPreference(b.call.req.body)
	}
	reply.Status, reply.Version, reply.ContentType, reply.NoCache = status(e.Code), "3.0", level.ContentType(), true
	if e.Code == odata.TableNotFound { // recorded: the service checks the table before the operation's headers
		reply.NoCache, reply.PreferenceApplied = false, ""
	}
	// In the recordings, these two errors of a first operation have no index.
	plain := index == 0 && (e.Code == odata.UpdateConditionNotSatisfied || e.Code == odata.ResourceNotFound)
	if !plain && b.isChangeset() {
		e = e.At(index)
	}
	reply.Body = e.AppendJSON(nil, b.call.id, b.call.now)
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

// query handles a batch that consists of one GET.
func (b *batch) query(r *odata.Request) ([]odata.Reply, error) {
	c := b.call
	inner := call{
		server:    c.server,
		request:   c.request,
		req:       c.req,
		resp:      &response{},
		now:       c.now,
		id:        c.id,
		method:    r.Method,
		path:      r.Path,
		account:   c.account,
		secondary: c.secondary,
		grant:     c.grant,
		links:     c.links,
	}
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
