package query

import (
	"crypto/md5" //nolint:gosec // an id, not a secret

	"cqld/query/read"
	"cqld/query/write"
)

// release returns the buffers before the Result, which it clears.
func (r *Result) release() {
	if buffer := r.pooled; buffer != nil {
		r.pooled, r.Rows = nil, nil
		buffer.Release()
	}
	if pool := r.pool; pool != nil {
		*r = Result{}
		pool.Put(r)
	}
}

// newResult returns an empty result of a statement that is executed often. Release returns it to the pool. Other
// results are not pooled: their statements are rare.
func (p *Processor) newResult(kind ResultKind) *Result {
	r, ok := p.results.Get().(*Result)
	if !ok {
		r = new(Result)
	}
	r.Kind, r.pool = kind, &p.results
	return r
}

// readResult returns the result of rows that were read. metadata describes them. The buffer of rows belongs to the
// Result.
func (p *Processor) readResult(rows *read.Rows, metadata *Metadata, s *Session, params *Params) *Result {
	r := p.newResult(KindRows)
	r.RowCount, r.Rows, r.PagingState, r.pooled = rows.Count, rows.Values, rows.PagingState, rows.Buffer
	r.setMetadata(metadata, s, params)
	return r
}

// writeResult returns the result of a write. Conditional writes have rows: [applied] and, if it is false, the current
// values.
func (p *Processor) writeResult(out write.Outcome, err error) (*Result, error) {
	switch {
	case err != nil:
		return nil, err
	// Not a conditional write.
	case out.Columns == nil:
		return p.newResult(KindVoid), nil
	}
	return &Result{Kind: KindRows, Metadata: newMetadata(out.Columns), RowCount: out.Count, Rows: out.Values}, nil
}

// voidResult returns a result without content that is not pooled.
func voidResult() *Result { return &Result{Kind: KindVoid} }

// newMetadata returns the metadata of rows with these columns. Plans keep it, because the hash costs more than a
// small result.
func newMetadata(columns []Column) *Metadata {
	return &Metadata{Columns: columns, ID: metadataID(columns)}
}

// metadataID returns a hash that changes whenever a column's name or type does. The name of a class contains the fields
// of a user-defined type, which ALTER TYPE changes, unlike the type's CQL form. The separators make concatenations of
// different columns differ. Clients treat the id as opaque, so it need not equal Cassandra's.
func metadataID(columns []Column) []byte {
	h := md5.New() //nolint:gosec // an id, not a secret
	for i := range columns {
		h.Write([]byte(columns[i].Name))
		h.Write([]byte{0})
		if t := columns[i].Type; len(t.Elems()) > 0 {
			h.Write([]byte(t.MarshalClass()))
		} else { // its name says all, and needs no allocation
			h.Write([]byte(t.String()))
		}
		h.Write([]byte{0, 0})
	}
	return h.Sum(nil)
}

// setMetadata determines which metadata is sent: a client with outdated metadata gets the new one, and a client that
// knows the current one may request to omit it. Only version 5 has ids of metadata; before it, the flag of the request
// decides.
func (r *Result) setMetadata(m *Metadata, s *Session, params *Params) {
	r.Metadata = m
	if s.Version >= 5 && params.ResultMetadataID != nil && string(params.ResultMetadataID) != string(m.ID) {
		r.MetadataChanged = true
		return
	}
	r.NoMetadata = params.SkipMetadata
}
