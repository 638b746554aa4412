package query

// rowBuffer is the memory of a result's rows; it is reused.
type rowBuffer struct{ b []byte }

func (r *Result) release() {
	r.pooled = nil
	r.Rows = nil
}
