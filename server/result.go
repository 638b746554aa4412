package server

import (
	"cqld/query"
	"cqld/server/frame"
)

// appendReply appends the RESULT envelope that answers h with r. payload is its custom payload; nil means none.
func (w *worker) appendReply(dst []byte, h header, r *query.Result, payload map[string][]byte) []byte {
	start := len(dst)
	warnings := w.request.Warnings
	flags := traceFlag(w.request.TraceID) | payloadFlag(payload)
	if len(warnings) > 0 && h.Version >= frame.V4 {
		flags |= frame.FlagWarnings
	}
	dst = frame.AppendHeader(dst, header{
		Version: h.Version, Response: true, Flags: flags, Stream: h.Stream, Opcode: frame.OpResult,
	})
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

func traceFlag(id *[16]byte) frame.Flags {
	if id == nil {
		return 0
	}
	return frame.FlagTracing
}

func payloadFlag(payload map[string][]byte) frame.Flags {
	if payload == nil {
		return 0
	}
	return frame.FlagCustomPayload
}

func (w *worker) appendResult(dst []byte, v frame.Version, r *query.Result) []byte {
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

func (w *worker) appendRows(dst []byte, v frame.Version, r *query.Result) []byte {
	w.columns = appendWireColumns(w.columns[:0], r.Metadata.Columns)
	m := frame.RowsMetadata{Columns: w.columns, PagingState: r.PagingState, NoMetadata: r.NoMetadata}
	if r.MetadataChanged {
		m.NewMetadataID = r.Metadata.ID
	}
	return frame.AppendRowsResult(dst, v, &m, int(r.RowCount), r.Rows)
}

func appendPrepared(dst []byte, v frame.Version, p *query.PreparedInfo) []byte {
	out := frame.Prepared{
		ID:           p.ID,
		Binds:        appendWireColumns(nil, p.Binds),
		PartitionKey: p.PartitionKey,
	}
	if p.Result != nil {
		out.ResultMetadataID = p.Result.ID
		out.Result = appendWireColumns(nil, p.Result.Columns)
	}
	return frame.AppendPreparedResult(dst, v, &out)
}

func appendWireColumns(dst []frame.Column, columns []query.Column) []frame.Column {
	for i := range columns {
		dst = append(dst, frame.Column(columns[i]))
	}
	return dst
}

func wireSchemaChange(s *query.SchemaChange) frame.SchemaChange {
	return frame.SchemaChange{Change: s.Change, Target: s.Target, Keyspace: s.Keyspace, Name: s.Name, ArgTypes: s.Args}
}

// appendErrorReply appends the ERROR envelope that answers h, with the session of its trace and its custom payload; nil
// means none.
func appendErrorReply(dst []byte, h header, e *frame.Error, traceID *[16]byte, payload map[string][]byte) []byte {
	start := len(dst)
	flags := traceFlag(traceID) | payloadFlag(payload)
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
