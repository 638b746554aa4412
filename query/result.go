package query

import (
	"cqld/query/read"
	"cqld/query/term"
	"cqld/query/write"
)

// release returns the buffers, clears the Result and returns it to its pool.
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

// readResult returns the result of a read. metadata describes its rows. The Result takes ownership of the buffer of
// rows.
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
	// An unconditional write has no columns.
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
	return &Metadata{Columns: columns, ID: term.HashSpecs(columns)}
}

// setMetadata determines which metadata is sent: a client with outdated metadata gets the new one, and a client that
// knows the current one may request to omit it. Ids of metadata exist since version 5; before, only the flag of the
// request counts.
func (r *Result) setMetadata(m *Metadata, s *Session, params *Params) {
	r.Metadata = m
	if s.Version >= 5 && params.ResultMetadataID != nil && string(params.ResultMetadataID) != string(m.ID) {
		r.MetadataChanged = true
		return
	}
	r.NoMetadata = params.SkipMetadata
}
