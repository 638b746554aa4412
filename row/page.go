package row

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/spaolacci/murmur3"

	"cqld/internal/invariant"
	"cqld/internal/wire"
)

// PageWriter encodes a page, the result of a ReadCommand:
//
//	page      := (0x01 partition)* 0x00 (complete | more | more position)
//	position  := key (whole | inside clusteringLen clustering)
//	partition := key headerLen header n rangeTombstone* (0x01 clusteringLen clustering rowLen row)* 0x00
//
// The header is an encoded Row with the partition's deletion and static cells. Range tombstones are normalized
// (NormalizeRangeTombstones) and cut to the slices that were read. Rows are in the command's order, purged, with
// their tombstones, and without parts that the partition's deletion, the range tombstones or their own deletion
// shadow. Equal content therefore has equal bytes, regardless of its history. more means that a limit ended the page
// before the end of the data: after its last row or, if the last rows that were read are not in the page, after a
// position. The caller keeps the order of calls: Partition, its Rows, EndPartition, and Finish at the end.
type PageWriter struct{ b []byte }

// The ends of a page.
const (
	pageComplete = iota
	pageMore
	pageMoreAfter
)

// Position is a place in the order of a command's rows: after a row of a partition, or after the whole partition.
// Clustering is not used if Whole is set.
type Position struct {
	Key        PartitionKey
	Clustering []byte
	Whole      bool
}

// Clone returns a copy of p that shares no memory with it.
func (p *Position) Clone() *Position {
	own := *p
	own.Key.Bytes, own.Clustering = bytes.Clone(p.Key.Bytes), bytes.Clone(p.Clustering)
	return &own
}

// NewPageWriter appends a page to dst.
func NewPageWriter(dst []byte) PageWriter { return PageWriter{b: dst} }

// Partition starts a partition. EndPartition must follow its rows.
func (w *PageWriter) Partition(key PartitionKey, header *Row, tombstones []RangeTombstone) {
	w.b = append(w.b, 1)
	w.b = appendKey(w.b, key)
	w.b = appendSizedRow(w.b, header)
	w.tombstones(tombstones)
}

// EncodedPartition is Partition for a header that AppendRow has encoded.
func (w *PageWriter) EncodedPartition(key PartitionKey, header []byte, tombstones []RangeTombstone) {
	w.b = append(w.b, 1)
	w.b = appendKey(w.b, key)
	w.bytes(header)
	w.tombstones(tombstones)
}

// tombstones appends the number of range tombstones and each of them.
func (w *PageWriter) tombstones(tombstones []RangeTombstone) {
	w.b = wire.AppendUvarint(w.b, uint64(len(tombstones)))
	// Normalized and cut by the caller, so that equal content has equal bytes.
	for _, t := range tombstones {
		w.bytes(t.Start)
		w.bytes(t.End)
		w.b = appendDeletion(w.b, t.Deletion)
	}
}

// Row appends a row of the partition.
func (w *PageWriter) Row(r *Row) {
	w.b = append(w.b, 1)
	w.bytes(r.Clustering)
	w.b = appendSizedRow(w.b, r)
}

// EncodedRow appends a row that is already encoded in canonical form.
func (w *PageWriter) EncodedRow(clustering, encoded []byte) {
	w.b = append(w.b, 1)
	w.bytes(clustering)
	w.bytes(encoded)
}

// Canonical appends the result of Streamer.Canonical for an encoded row, and returns it. nil means that the result is
// empty and nothing was appended. It is valid until the page changes.
func (w *PageWriter) Canonical(s *Streamer, clustering, encoded []byte, d Deletion, gcBefore, now int64) (left []byte,
	live bool, err error) {
	mark := len(w.b)
	// The result is not larger than the row, so the page is reallocated at most once.
	w.b = slices.Grow(w.b, EncodedRowLen(clustering, encoded)+8)
	w.b = append(w.b, 1)
	w.bytes(clustering)
	at := len(w.b)
	// Guess the size of the whole row, because usually nothing is removed.
	dst, room := appendRoom(w.b, len(encoded))
	dst, live, empty, err := s.Canonical(dst, encoded, d, gcBefore, now)
	if empty || err != nil {
		w.b = w.b[:mark]
		return nil, false, err
	}
	size := len(dst) - at - room
	w.b = finishSized(dst, at, room)
	return w.b[len(w.b)-size:], live, nil
}

// EndPartition ends the current partition.
func (w *PageWriter) EndPartition() { w.b = append(w.b, 0) }

// Finish ends the page and returns it.
func (w *PageWriter) Finish(more bool) []byte {
	w.b = append(w.b, 0, pageComplete)
	if more {
		w.b[len(w.b)-1] = pageMore
	}
	return w.b
}

// FinishAfter ends a page with more data after a position, which is not before its last row, and returns it.
func (w *PageWriter) FinishAfter(p *Position) []byte {
	w.b = append(w.b, 0, pageMoreAfter)
	w.b = appendKey(w.b, p.Key)
	w.b = append(w.b, boolByte(p.Whole))
	// A position after the whole partition has no clustering.
	if !p.Whole {
		w.bytes(p.Clustering)
	}
	return w.b
}

// ContinueAfter replaces the end of a page that Finish has ended: there is more data after a position, which is not
// before its last row. It uses the memory of page.
func ContinueAfter(page []byte, p *Position) []byte {
	// The two bytes are the zero that ends the partitions, and the kind of the end.
	w := PageWriter{b: page[:len(page)-2]}
	return w.FinishAfter(p)
}

// EncodedRowLen returns at most how many bytes EncodedRow appends.
func EncodedRowLen(clustering, encoded []byte) int {
	return 1 + 2*binary.MaxVarintLen32 + len(clustering) + len(encoded)
}

// Undo removes everything after the first n bytes, which Len has returned before.
func (w *PageWriter) Undo(n int) {
	// A slice expression would also accept an n up to the capacity, which may contain bytes of another page.
	invariant.Check(n >= 0 && n <= len(w.b), "row: a page cannot return to a later end")
	w.b = w.b[:n]
}

// Len returns the number of bytes so far, including the bytes of dst.
func (w *PageWriter) Len() int { return len(w.b) }

func (w *PageWriter) bytes(b []byte) {
	w.b = append(wire.AppendUvarint(w.b, uint64(len(b))), b...)
}

// CountPage counts what a page contains as of now, in seconds: live rows; deleted and expired rows, and both bounds
// of each range tombstone; and partitions. A partition that has live static columns and no live row counts as a row.
// If the page is malformed, CountPage counts the part before the error.
func CountPage(page []byte, now int64) (rows, tombstones, partitions int) {
	var r PageReader
	var x Row
	r.Reset(page)
	for r.NextPartition() {
		partitions++
		tombstones += 2 * len(r.RangeTombstones)
		live := 0
		for r.NextRow(&x) {
			if x.Live(now) {
				live++
			} else {
				tombstones++
			}
		}
		// As ReadCommand.StaticCounts counts.
		if live == 0 && r.Header.Live(now) {
			live = 1
		}
		rows += live
	}
	return rows, tombstones, partitions
}

// PageReader iterates over a page. Its results point into the page.
//
//	for r.NextPartition() {
//		for r.NextRow(&x) { … }
//	}
//	if err := r.Err(); err != nil { … }
//
// Malformed bytes end the iteration; Err reports them. Another node may have sent the page, so the reader validates
// it.
type PageReader struct {
	Key             PartitionKey
	Header          Row
	RangeTombstones []RangeTombstone

	// Runs makes the reader decode rows with DecodeRuns.
	Runs bool
	// Encoded makes the reader return headers in HeaderBytes, and not in Header. The rows are then read with
	// NextEncoded.
	Encoded     bool
	HeaderBytes []byte

	c wire.Cursor
	// inside means that the cursor is among the rows of a partition.
	inside bool
	// rows means that a row of the current partition was read or skipped.
	rows bool
	// size is the encoded size of the current row.
	size  int
	ended bool
	more  bool
	// at is the explicit end position of the page, if it has one.
	at *Position
}

// Reset starts an iteration over page.
func (r *PageReader) Reset(page []byte) {
	r.c = wire.NewCursor(page)
	r.inside, r.ended, r.more, r.at = false, false, false, nil
}

// NextPartition advances to the next partition, and skips the rest of the current one.
func (r *PageReader) NextPartition() bool {
	r.skipRows()
	if r.ended || r.c.Err() != nil {
		return false
	}
	// Zero ends the partitions, and the end of the page follows.
	if r.c.Uint8() == 0 {
		r.end()
		return false
	}
	r.rows = false
	r.Key = consumeKey(&r.c)
	if header := consumeShort(&r.c); r.Encoded {
		r.HeaderBytes = header
	} else {
		r.decode(&r.Header, header)
	}
	r.RangeTombstones = r.RangeTombstones[:0]
	// 11 bytes are the least size of a range tombstone: two lengths, a timestamp and a time.
	for n := r.c.Count(11); n > 0; n-- {
		t := RangeTombstone{Start: consumeShort(&r.c), End: consumeShort(&r.c)}
		t.Deletion = consumeDeletion(&r.c)
		r.RangeTombstones = append(r.RangeTombstones, t)
	}
	r.inside = r.c.Err() == nil
	return r.inside
}

// skipRows skips the remaining rows of the partition without decoding them.
func (r *PageReader) skipRows() {
	for r.inside {
		if r.inside = r.c.Uint8() != 0; r.inside {
			r.rows = true
			// The clustering and the row.
			consumeShort(&r.c)
			consumeShort(&r.c)
			r.inside = r.c.Err() == nil
		}
	}
}

// decode decodes a row, and rejects one whose parts are not in order: another node may have sent the page, and
// Reconcile relies on the order.
func (r *PageReader) decode(row *Row, encoded []byte) {
	var err error
	if r.Runs {
		err = DecodeRuns(row, encoded)
	} else {
		err = DecodeRow(row, encoded)
	}
	// DecodeRow does not check the order of cells, because rows from storage are in order.
	if err == nil && !row.inOrder() {
		err = wire.ErrMalformed
	}
	if err != nil {
		r.c.Fail(err)
	}
}

// end decodes the end of the page.
func (r *PageReader) end() {
	r.ended = true
	switch r.c.Uint8() {
	case pageComplete:
	case pageMore:
		r.more = true
	case pageMoreAfter:
		r.more, r.at = true, &Position{Key: consumeKey(&r.c)}
		if r.at.Whole = consumeBool(&r.c); !r.at.Whole {
			r.at.Clustering = notNull(consumeShort(&r.c))
		}
	default:
		r.c.Fail(wire.ErrMalformed)
	}
	_ = r.c.Finish() // Err returns the error
}

// NextRow decodes the next row of the partition into row.
func (r *PageReader) NextRow(row *Row) bool {
	if !r.inside {
		return false
	}
	// The end of the partition. The next byte begins a partition, or is the end of the page.
	if r.c.Uint8() == 0 {
		r.inside = false
		return false
	}
	r.rows = true
	row.Clustering = consumeShort(&r.c)
	encoded := consumeShort(&r.c)
	r.size = len(encoded)
	r.decode(row, encoded)
	r.inside = r.c.Err() == nil
	return r.inside
}

// NextEncoded returns the next row of the partition without decoding it. Streamer checks the order of the cells when it
// reads the row.
func (r *PageReader) NextEncoded() (clustering, encoded []byte, ok bool) {
	if !r.inside {
		return nil, nil, false
	}
	if r.c.Uint8() == 0 {
		r.inside = false
		return nil, nil, false
	}
	r.rows = true
	clustering, encoded = consumeShort(&r.c), consumeShort(&r.c)
	r.size = len(encoded)
	r.inside = r.c.Err() == nil
	return clustering, encoded, r.inside
}

// Contents counts the contents of a page, live or not.
type Contents struct{ Partitions, Rows, RangeTombstones int }

// ContentsOf counts the contents of a page without decoding rows, up to an error in the page. Only lengths are read.
func ContentsOf(page []byte) (n Contents) {
	c := wire.NewCursor(page)
	for c.Uint8() != 0 && c.Err() == nil {
		n.Partitions++
		consumeKey(&c)
		consumeShort(&c)
		// Each takes 11 bytes at least, as in NextPartition.
		tombstones := c.Count(11)
		n.RangeTombstones += tombstones
		for range tombstones {
			consumeShort(&c)
			consumeShort(&c)
			consumeDeletion(&c)
		}
		for c.Uint8() != 0 && c.Err() == nil {
			n.Rows++
			consumeShort(&c)
			consumeShort(&c)
		}
	}
	return n
}

// RowBytes returns the encoded size of the row that NextRow returned last.
func (r *PageReader) RowBytes() int { return r.size }

// Continues reports, after the rows of a partition, whether the page ends within it: the partition may have further
// rows. A page without an explicit position ends within its last partition if that has rows; a partition without rows
// is complete.
func (r *PageReader) Continues() bool {
	// Copy the cursor, so that the reader itself does not move.
	rest := PageReader{c: r.c}
	if rest.c.Err() != nil || rest.c.Uint8() != 0 {
		return false // malformed, or not the last partition
	}
	if rest.end(); rest.at != nil {
		return !rest.at.Whole && bytes.Equal(rest.at.Key.Bytes, r.Key.Bytes)
	}
	return rest.more && r.rows
}

// More reports, after the iteration, whether a limit ended the page before the end of the data.
func (r *PageReader) More() bool { return r.more }

// End returns, after the iteration, the position after which the data continues, or nil if the page is complete or its
// last row is that position. It points into the page.
func (r *PageReader) End() *Position { return r.at }

// Err returns an error if the page is malformed.
func (r *PageReader) Err() error { return r.c.Err() }

// Digest is a hash of a page. Replicas with equal content have equal digests. It is not a cryptographic hash, because
// replicas trust each other.
type Digest [16]byte

// DigestOf returns the digest of an encoded page.
func DigestOf(page []byte) (d Digest) {
	h1, h2 := murmur3.Sum128(page)
	wire.AppendUint64(wire.AppendUint64(d[:0], h1), h2)
	return d
}
