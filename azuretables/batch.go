package azuretables

import (
	"bytes"
	"strings"

	"cqld/azuretables/odata"
)

// batch is an entity group transaction in progress: one changeset, which is applied completely or not at all, or one
// query. The changeset's response contains the error of an operation; the status of the whole response is 202
// nevertheless. The service executes a query in a batch only if it is alone.
type batch struct {
	// call is the request that contains the batch; its grant and role apply to each operation.
	call *call
	// parsed is nil if the body is unreadable.
	parsed *odata.Batch
}

// run executes the batch and writes the multipart response. An error that concerns the whole batch is returned, and the
// caller responds to it as to any other request. Without an error, the response has status 202.
func (b *batch) run() error {
	c := b.call
	replies, err := b.replies()
	if err != nil {
		// An error of one operation is a response inside the multipart body.
		reply, inside := b.refusal(err)
		if !inside {
			return err
		}
		// The response to a failed changeset contains one part only, because no operation was applied.
		replies = []odata.Reply{reply}
	}
	r := c.resp
	// A random boundary practically never occurs in an entity.
	boundary := "batchresponse_" + c.server.newID()
	r.status, r.contentType = 202, "multipart/mixed; boundary="+boundary
	r.data()
	r.body = odata.AppendReplies(r.body, boundary, "changesetresponse_"+c.server.newID(), b.isChangeset(), replies)
	return nil
}

// replies parses and executes the batch. Its error may be an odata.RequestError or an entity.Failed, which name an
// operation.
func (b *batch) replies() (replies []odata.Reply, err error) {
	c := b.call
	b.parsed, err = odata.ParseBatch(c.req.body, c.req.header.contentType, &c.server.limits.Entity)
	switch {
	case err != nil:
		return nil, err
	case !b.parsed.Changeset:
		// ParseBatch guarantees one request if there is no changeset.
		return b.query(&b.parsed.Requests[0])
	}
	t := newChangeset(c, b.parsed.Requests)
	// Everything is parsed before anything is applied: the first invalid operation refuses the changeset as a whole.
	if err := t.parse(); err != nil {
		return nil, err
	}
	return t.apply()
}

// isChangeset reports whether the response is that to a changeset; an unreadable body counts as one. The form matters
// to SDKs, which parse the parts.
func (b *batch) isChangeset() bool { return b.parsed == nil || b.parsed.Changeset }

// refusal returns the single response to a changeset with a refused operation. inside is false if the error concerns
// the whole batch: it is unreadable, or the client should retry it. The client sees 202, and the refusal in the part.
func (b *batch) refusal(err error) (reply odata.Reply, inside bool) {
	// The index is 0 if err names none.
	e, known := serviceError(err)
	index, indexed := failedOperation(err)
	// A client retries the whole batch after a 5xx, so that is the status of the response.
	if !known || status(e.Code) >= 500 || b.parsed == nil && !indexed {
		return reply, false
	}
	level := odata.MinimalMetadata
	// The format of the part follows the headers of the refused operation, not the headers of the batch.
	if b.parsed != nil && index < len(b.parsed.Requests) {
		refused := &b.parsed.Requests[index]
		level, _ = parseAccept(refused.Field("Accept"))
		reply.PreferenceApplied = preference(refused.Field("Prefer"))
	} else {
		// No operation was parsed, so the header is searched in the raw body.
		reply.PreferenceApplied = firstPreference(b.call.req.body)
	}
	reply.Status, reply.Version, reply.ContentType, reply.NoCache = status(e.Code), "3.0", level.ContentType(), true
	if e.Code == odata.TableNotFound { // recorded: the service checks the table before the operation's headers
		reply.NoCache, reply.PreferenceApplied = false, ""
	}
	// In the recordings, these two errors of a first operation have no index.
	plain := index == 0 && (e.Code == odata.UpdateConditionNotSatisfied || e.Code == odata.ResourceNotFound)
	// At prefixes the message with the index, "1:The batch request contains...", from which SDKs find the operation.
	if !plain && b.isChangeset() {
		e = e.At(index)
	}
	reply.Body = e.AppendJSON(nil, b.call.id, b.call.now)
	return reply, true
}

// firstPreference returns the preference of a changeset's first operation if the changeset has too many operations and
// was therefore not parsed completely. The first Prefer line of the body is the first operation's, because operations
// follow each other in the body. It is a search in the text, which is exact enough for a header of a refused request.
func firstPreference(body []byte) string {
	for len(body) > 0 {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte("\n"))
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Prefer")) {
			return preference(string(value))
		}
	}
	return ""
}

// preference returns the first of the two preferences that the service knows, as the response repeats it. Preferences
// have no case and may be in a list (RFC 7240 §2). Others, such as respond-async, are ignored; without any the response
// has no Preference-Applied.
func preference(prefer string) string {
	for prefer != "" {
		var one string
		one, prefer, _ = strings.Cut(prefer, ",")
		for _, known := range [...]string{"return-no-content", "return-content"} {
			if strings.EqualFold(strings.TrimSpace(one), known) {
				return known
			}
		}
	}
	return ""
}

// query handles a batch that consists of one GET. It runs as a separate call, with its own path, parameters and
// response, under the grant of the batch.
func (b *batch) query(r *odata.Request) ([]odata.Reply, error) {
	c := b.call
	inner := call{
		server:    c.server, // a copy: its cost is copied back below
		request:   c.request,
		req:       c.req, // without authorization headers of its own
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
	// The cost is copied even after an error, because the headers of a measured request report the cost of a failed
	// query.
	defer func() { c.request.Cost, c.plan = inner.request.Cost, inner.plan }()
	var err error
	if inner.params, err = parseParams(r.Query); err != nil {
		return nil, err
	}
	// The level follows the operation's headers, not the headers of the batch.
	var ok bool
	if inner.level, ok = parseAccept(r.Field("Accept")); !ok {
		return nil, odata.Of(odata.AtomFormatNotSupported)
	}
	switch r.Path.Resource {
	case odata.OneEntity:
		err = inner.get()
	case odata.EntitySet:
		err = inner.query()
	// A batch cannot contain requests about tables or the account.
	default:
		err = odata.Of(odata.InvalidInput)
	}
	if err != nil {
		return nil, c.named(r.Path.Table, err)
	}
	// The handlers wrote to inner.resp; the reply has fields for the headers that the service repeats in a part.
	reply := odata.Reply{Status: inner.resp.status, NoCache: true, Version: "3.0", ContentType: inner.resp.contentType,
		Body: inner.resp.body}
	for _, f := range inner.resp.fields {
		switch f.name {
		case "ETag":
			reply.ETag = f.value
		// AppendReplies writes these two from NoCache.
		case "Cache-Control", "X-Content-Type-Options":
		default:
			c.resp.add(f.name, f.value) // the continuation and the cost
		}
	}
	return []odata.Reply{reply}, nil
}
