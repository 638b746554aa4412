package query

import (
	"crypto/md5" //nolint:gosec // an id, not a secret
	"sync"
)

// rowBuffer is the reusable memory of a result's rows.
type rowBuffer struct {
	b    []byte
	pool *sync.Pool
}

// rowsKeepMax bounds the memory an idle buffer keeps.
const rowsKeepMax = 1 << 20

func (r *Result) release() {
	if buf := r.pooled; buf != nil {
		r.pooled, r.Rows = nil, nil
		if cap(buf.b) <= rowsKeepMax {
			buf.pool.Put(buf)
		}
	}
}

// newMetadata returns the metadata of rows with these columns.
func newMetadata(columns []Column) *Metadata {
	return &Metadata{Columns: columns, ID: metadataID(columns)}
}

// metadataID returns a hash that changes whenever a column's name or type does.
func metadataID(columns []Column) []byte {
	h := md5.New() //nolint:gosec // an id, not a secret
	for i := range columns {
		h.Write([]byte(columns[i].Name))
		h.Write([]byte{0})
		h.Write([]byte(columns[i].Type.String()))
		h.Write([]byte{0, 0})
	}
	return h.Sum(nil)
}

// setMetadata determines which metadata is sent: a client with outdated metadata gets the new one, and a client that
// knows the current one may request to omit it.
func (r *Result) setMetadata(m *Metadata, s *Session, params *Params) {
	r.Metadata = m
	if s.Version >= 5 && params.ResultMetadataID != nil && string(params.ResultMetadataID) != string(m.ID) {
		r.MetadataChanged = true
		return
	}
	r.NoMetadata = params.SkipMetadata
}
