package server

import (
	"cqld/query"
	"cqld/server/frame"
)

// appendReply appends the RESULT envelope that answers h with r. payload is its custom payload; nil means none. The
// envelope is complete, with its length, and not compressed yet.
func (w *worker) appendReply(dst []byte, h header, r *query.Result, payload map[string][]byte) []byte {
	start := len(dst)
	warnings := w.request.Warnings
	flags := traceFlag(w.request.TraceID) | payloadFlag(payload)
	// v3 has no warnings; they are dropped.
	if len(warnings) > 0 && h.Version >= frame.V4 {
		flags |= frame.FlagWarnings
	}
	dst = frame.AppendHeader(dst, header{
		Version: h.Version, Response: true, Flags: flags, Stream: h.Stream, Opcode: frame.OpResult,
	})
	// Most replies have no prefix.
	if flags != 0 {
		prefix := frame.Prefix{Warnings: warnings, CustomPayload: payload}
		if w.request.TraceID != nil {
			prefix.TracingID = *w.request.TraceID
		}
		dst = frame.AppendPrefix(dst, flags, prefix)
	}
	dst = w.appendResult(dst, h.Version, r)
	frame.FinishEnvelope(dst, start)
	return dst
}

// traceFlag returns the flag of a reply with a trace.
func traceFlag(id *[16]byte) frame.Flags {
	if id == nil {
		return 0
	}
	return frame.FlagTracing
}

// payloadFlag returns the flag of a reply with a custom payload.
func payloadFlag(payload map[string][]byte) frame.Flags {
	if payload == nil {
		return 0
	}
	return frame.FlagCustomPayload
}

// appendResult appends the body of RESULT.
func (w *worker) appendResult(dst []byte, v frame.Version, r *query.Result) []byte {
	// The kinds of the RESULT message in the protocol specification.
	switch r.Kind {
	case query.KindRows:
		return w.appendRows(dst, v, r)
	case query.KindSetKeyspace:
		return frame.AppendSetKeyspaceResult(dst, r.Keyspace)
	case query.KindPrepared:
		return appendPrepared(dst, v, r.Prepared)
	case query.KindSchemaChange:
		change := wireSchemaChange(r.SchemaChange)
		return frame.AppendSchemaChangeResult(dst, v, &change)
	default:
		return frame.AppendVoidResult(dst)
	}
}

// appendRows appends the body of a Rows result. The rows are already in wire form, and are copied. NoMetadata, the
// skip_metadata flag of the request, leaves the columns out.
func (w *worker) appendRows(dst []byte, v frame.Version, r *query.Result) []byte {
	w.columns = appendWireColumns(w.columns[:0], r.Metadata.Columns)
	m := frame.RowsMetadata{Columns: w.columns, PagingState: r.PagingState, NoMetadata: r.NoMetadata}
	// A new id makes the client replace its columns (v5).
	if r.MetadataChanged {
		m.NewMetadataID = r.Metadata.ID
	}
	return frame.AppendRowsResult(dst, v, &m, int(r.RowCount), r.Rows)
}

// appendPrepared appends the body of a Prepared result. It is rare, so its columns are allocated.
func appendPrepared(dst []byte, v frame.Version, p *query.PreparedInfo) []byte {
	out := frame.Prepared{
		ID:           p.ID,
		Binds:        appendWireColumns(nil, p.Binds),
		PartitionKey: p.PartitionKey,
	}
	// nil if the statement returns no rows. Its id lets the server skip the columns in later results (v5).
	if p.Result != nil {
		out.ResultMetadataID = p.Result.ID
		out.Result = appendWireColumns(nil, p.Result.Columns)
	}
	return frame.AppendPreparedResult(dst, v, &out)
}

// appendWireColumns converts columns; both types have the same fields.
func appendWireColumns(dst []frame.Column, columns []query.Column) []frame.Column {
	for i := range columns {
		dst = append(dst, frame.Column(columns[i]))
	}
	return dst
}

// wireSchemaChange converts a schema change.
func wireSchemaChange(s *query.SchemaChange) frame.SchemaChange {
	return frame.SchemaChange{Change: s.Change, Target: s.Target, Keyspace: s.Keyspace, Name: s.Name, ArgTypes: s.Args}
}

// appendErrorReply appends the ERROR envelope that answers h, with the session of its trace and its custom payload; nil
// means none.
func appendErrorReply(dst []byte, h header, e *frame.Error, traceID *[16]byte, payload map[string][]byte) []byte {
	start := len(dst)
	flags := traceFlag(traceID) | payloadFlag(payload)
	// The length is set by FinishEnvelope.
	dst = frame.AppendHeader(dst, header{Version: h.Version, Response: true, Flags: flags, Stream: h.Stream,
		Opcode: frame.OpError})
	prefix := frame.Prefix{CustomPayload: payload}
	if traceID != nil {
		prefix.TracingID = *traceID
	}
	dst = frame.AppendPrefix(dst, flags, prefix)
	dst = frame.AppendError(dst, h.Version, e)
	frame.FinishEnvelope(dst, start)
	return dst
}
