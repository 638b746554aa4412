package read

import (
	"slices"

	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/request"
	"cqld/schema"
)

// reserve reserves memory for everything that the SELECT keeps, n bytes in all: the result, and rows, groups and
// vectors that are not part of it yet. The reservation doubles, as slices do, and is returned when the request ends.
func (run *reading) reserve(n int) error {
	if n <= max(run.reserved, resultFree) {
		return nil
	}
	// Doubling makes reservations rare.
	more := max(n, 2*run.reserved)
	if most := run.request.Memory.Max(); most > 0 && int64(more) > most/2 {
		// Near the bound, a double reservation could fail although the memory suffices.
		more = n
	}
	// Grow takes the difference: reserved is the sum of all calls for this SELECT.
	if err := run.request.Grow(more - run.reserved); err != nil {
		return err
	}
	run.reserved = more
	return nil
}

// kept returns the bytes that the SELECT keeps. It is a lower bound: it includes the overhead of slices and maps only
// where limits.go defines it.
func (run *reading) kept() int {
	return len(run.buf.b) + run.sink.bytes(run) + run.states
}

// reserveRow reserves memory for the result of the current row before it is built, if the row is large. RowBytes is
// the encoded size in the page, which is close to the size in the result unless functions change it.
func (run *reading) reserveRow(r *request.Read) error {
	if run.rowBytes = r.Reader.RowBytes(); run.rowBytes < rowLarge {
		return nil
	}
	if err := run.reserve(run.kept() + run.rowBytes); err != nil {
		return err
	}
	// Allocate the reserved memory in one step.
	run.buf.b = slices.Grow(run.buf.b, run.rowBytes)
	return nil
}

// reserveColumns reserves memory for a row of the result that repeats columns, before it is built. Each column counts
// as often as it is selected.
func reserveColumns(run *reading, v *rowview.View, columns []*schema.Column) error {
	n := 0
	for _, c := range columns {
		n += v.Size(c)
	}
	if err := run.reserve(run.kept() + n); err != nil {
		return err
	}
	run.buf.b = slices.Grow(run.buf.b, n)
	return nil
}

// valueMemory reserves memory for values while they are built. It implements selection.Memory.
type valueMemory struct{ run *reading }

// Reserve reserves n bytes in addition to what the SELECT keeps.
func (m valueMemory) Reserve(n int) error { return m.run.reserve(m.run.kept() + n) }

// full reports whether the page ends after the current row. A page ends when it has the requested number of rows or
// reaches its size in bytes. In the second case the client receives a short page with a paging state, which the
// protocol allows. full returns an error if an unpaged result exceeds its bound.
func (run *reading) full() (bool, error) {
	n := len(run.buf.b)
	if run.paged {
		return n >= run.reader.o.PageBytes, nil
	}
	most := pageBytesMax
	if m := run.request.Memory.Max(); m > 0 {
		// The same memory must also hold the reply, into which the result is copied, and the rows that are being
		// read.
		most = min(most, int(m/unpagedShare))
	}
	if n > most {
		return false, invalid.Errorf("The result is larger than %d bytes; fetch it by pages", most)
	}
	return false, nil
}
