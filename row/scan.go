package row

import (
	"bytes"
	"encoding/binary"
	"math"

	"cqld/internal/wire"
)

// Summary contains the properties of an encoded row that show whether a reader can return it unchanged.
type Summary struct {
	// Live means that the row exists for a reader at the given time.
	Live bool
	// Deletes means that the row contains a row deletion or a complex deletion, which may shadow its cells.
	Deletes bool
	// Empty means that the row has no content.
	Empty bool
	// Tombstones is the number of tombstones that the row counts for the thresholds of reads, as in Cassandra: its
	// deleted and expired cells, or one for a row without such cells that is not live because of a deletion or its
	// expiry. The deletions that an INSERT of a collection writes before its elements do not count.
	Tombstones int
	// TimestampMin is the least timestamp (µs) in the row; an older deletion shadows none of it.
	TimestampMin int64
	// TimestampMax is the greatest timestamp, or NoTimestamp.
	TimestampMax int64
	// LocalTimeMin is the earliest time (seconds) of a deletion or an expiry in the row, or MaxInt64. A gcBefore up
	// to it purges nothing.
	LocalTimeMin int64
}

// Immortal reports, without a scan, whether an encoded row is live permanently and deletes nothing: it contains no
// deletion and nothing that expires or was deleted. False may also mean "unknown". It examines only the flags,
// because reads call it for each row.
func Immortal(b []byte) bool {
	// A single zero byte is an empty row, which is not live.
	return len(b) > 0 && b[0]&^flagLiveness == 0 && (b[0] != 0 || len(b) > 1)
}

// Summarize scans an encoded row without decoding it. now is in seconds. It allocates nothing. The error is
// wire.ErrMalformed.
func Summarize(b []byte, now int64) (Summary, error) {
	s := scanner{b: b, now: now}
	s.sum = Summary{TimestampMin: math.MaxInt64, TimestampMax: NoTimestamp, LocalTimeMin: math.MaxInt64,
		Empty: len(b) == 1 && b[0] == 0}
	if !s.head() {
		return s.sum, wire.ErrMalformed
	}
	if !s.cells() {
		return s.sum, wire.ErrMalformed
	}
	// One tombstone for a row that was deleted as a whole.
	if s.sum.Tombstones == 0 && !s.sum.Live && (s.sum.Deletes || s.lapsed) {
		s.sum.Tombstones = 1
	}
	return s.sum, nil
}

// TimestampMax returns Summary.TimestampMax of an encoded row. Writes need no other property. Most rows contain no
// deletions and do not expire; TimestampMax reads their timestamps without the checks of a scan, in a third of the
// time.
func TimestampMax(b []byte) (int64, error) {
	if newest, ok := plainTimestampMax(b); ok {
		return newest, nil
	}
	sum, err := Summarize(b, 0)
	return sum.TimestampMax, err
}

// plainTimestampMax is TimestampMax for a row without deletions, paths and expiring cells, whose columns have small
// identifiers. It returns false for all other rows, and for malformed ones.
func plainTimestampMax(b []byte) (newest int64, ok bool) {
	if !Immortal(b) {
		return 0, false
	}
	newest = NoTimestamp
	at := 1
	if b[0] != 0 { // liveness
		if len(b) < at+8 {
			return 0, false
		}
		// The first cell may omit this timestamp.
		newest = int64(binary.BigEndian.Uint64(b[at:]))
		at += 8
	}
	for at < len(b) {
		flags := b[at]
		// Leave a column id of two bytes, or any other flag, to the scan.
		if flags&^(cellTimestamp|cellEmpty) != 0 || len(b) < at+2 || b[at+1] >= 0x80 {
			return 0, false
		}
		at += 2
		// A cell without a timestamp shares the timestamp of the previous cell.
		if flags&cellTimestamp != 0 {
			if len(b) < at+8 {
				return 0, false
			}
			newest = max(newest, int64(binary.BigEndian.Uint64(b[at:])))
			at += 8
		}
		if flags&cellEmpty != 0 {
			continue
		}
		n, size := binary.Uvarint(b[at:])
		// Malformed: the scan reports it.
		if size <= 0 || n > uint64(len(b)-at-size) {
			return 0, false
		}
		at += size + int(n)
	}
	return newest, true
}

// validate checks that b is an encoded row which DecodeRow accepts, with its cells in order.
func validate(b []byte) error {
	s := scanner{b: b}
	if !s.head() || !s.cells() || s.disorder {
		return wire.ErrMalformed
	}
	return nil
}

// ValidateRow checks that b, which another node sent, is an encoded row that can be stored.
func ValidateRow(b []byte) error { return validate(b) }

// scanner iterates over an encoded row. Its methods return false at malformed bytes. It checks everything that
// DecodeRow checks, so a row that was summarized can be decoded.
type scanner struct {
	b []byte
	// The next byte of b.
	at      int
	now     int64
	expires bool // an earlier part had a ttl
	// localTime is the expiry of the previous expiring cell or of the liveness. It is valid only if expires is set.
	localTime int64
	column    uint64
	path      []byte
	begun     bool // a cell was found
	mortal    bool // a cell is a tombstone or expires
	lapsed    bool // the liveness has expired
	// disorder means that cells or complex deletions are not ascending. Only validate rejects such a row.
	disorder bool
	sum      Summary
}

// head scans everything but the cells.
func (s *scanner) head() bool {
	if len(s.b) == 0 || badFlags(s.b[0]) {
		return false
	}
	flags := s.b[0]
	s.at = 1
	if flags&flagLiveness != 0 {
		if !s.timestamp() {
			return false
		}
		// A marker without a TTL keeps the row alive permanently.
		live := true
		if flags&flagLivenessTTL != 0 {
			if !s.expiry() {
				return false
			}
			live = s.dies(s.localTime)
			s.lapsed = !live
		}
		s.sum.Live = live
	}
	if flags&flagDeletion != 0 && !s.deletion() {
		return false
	}
	if flags&flagComplex == 0 {
		return true
	}
	n, ok := s.uvarint()
	for i := uint64(0); ok && i < n; i++ {
		column, known := s.uvarint()
		// Disorder is not an error here; only validate rejects it.
		s.disorder = s.disorder || i > 0 && column <= s.column
		s.column = column
		ok = known && column <= math.MaxUint16 && s.deletion()
	}
	return ok
}

// cells scans all cells, and compares them with the flag of the row.
func (s *scanner) cells() bool {
	for s.at < len(s.b) {
		if !s.cell() {
			return false
		}
	}
	return s.mortal == (s.b[0]&flagMortal != 0)
}

// cell scans one cell. Its parts come in the order in which appendCell appends them.
func (s *scanner) cell() bool {
	flags := s.b[s.at]
	s.at++
	column, ok := s.uvarint()
	if !ok || badCellFlags(flags) || column > math.MaxUint16 {
		return false
	}
	if flags&cellTimestamp != 0 && !s.timestamp() {
		return false
	}
	live := true
	s.mortal = s.mortal || flags&(cellTombstone|cellExpiring) != 0
	switch {
	case flags&cellTombstone != 0:
		// A tombstone has no TTL, and its time is its own.
		deleted, ok := s.varint()
		if !ok {
			return false
		}
		s.sum.Tombstones++
		s.sum.LocalTimeMin = min(s.sum.LocalTimeMin, deleted)
		live = false
	case flags&cellExpiring != 0:
		if flags&cellExpiry != 0 && !s.expiry() {
			return false
		}
		// The cell shares an expiry, but no earlier part has one.
		if !s.expires {
			return false
		}
		if live = s.dies(s.localTime); !live {
			s.sum.Tombstones++
		}
	}
	s.sum.Live = s.sum.Live || live
	var path []byte
	if flags&cellPath != 0 {
		if path, ok = s.bytes(); !ok {
			return false
		}
	}
	// Equal identities are disorder, too, because each cell occurs once in a row.
	if s.begun && (column < s.column || column == s.column && bytes.Compare(path, s.path) <= 0) {
		s.disorder = true
	}
	s.column, s.path, s.begun = column, path, true
	if flags&cellEmpty != 0 {
		return true
	}
	_, ok = s.bytes()
	return ok
}

// dies records an expiry, and reports whether it is in the future.
func (s *scanner) dies(localTime int64) bool {
	s.sum.LocalTimeMin = min(s.sum.LocalTimeMin, localTime)
	return localTime > s.now
}

// deletion scans a deletion of the row or of a column.
func (s *scanner) deletion() bool {
	if !s.timestamp() {
		return false
	}
	localTime, ok := s.varint()
	s.sum.LocalTimeMin = min(s.sum.LocalTimeMin, localTime)
	s.sum.Deletes = true
	return ok
}

// expiry scans a ttl and an expiry, and keeps the latter for cells that share it.
func (s *scanner) expiry() bool {
	ttl, ok := s.uvarint()
	if !ok || badTTL(ttl) {
		return false
	}
	s.expires = true
	s.localTime, ok = s.varint()
	return ok
}

// timestamp scans a timestamp of 8 bytes.
func (s *scanner) timestamp() bool {
	// All timestamps count, also of deletions.
	if len(s.b)-s.at < 8 {
		return false
	}
	t := int64(binary.BigEndian.Uint64(s.b[s.at:]))
	s.sum.TimestampMin, s.sum.TimestampMax = min(s.sum.TimestampMin, t), max(s.sum.TimestampMax, t)
	s.at += 8
	return true
}

// uvarint scans an unsigned varint.
func (s *scanner) uvarint() (uint64, bool) {
	// Most numbers take one byte.
	if s.at < len(s.b) && s.b[s.at] < 0x80 {
		s.at++
		return uint64(s.b[s.at-1]), true
	}
	v, n := binary.Uvarint(s.b[s.at:])
	// n is not positive for malformed bytes.
	s.at += max(n, 0)
	return v, n > 0
}

// varint scans a signed varint.
func (s *scanner) varint() (int64, bool) {
	v, n := binary.Varint(s.b[s.at:])
	s.at += max(n, 0)
	return v, n > 0
}

// bytes scans a length and that many bytes, which point into the row.
func (s *scanner) bytes() ([]byte, bool) {
	n, ok := s.uvarint()
	if !ok || n > uint64(len(s.b)-s.at) {
		return nil, false
	}
	// n is at most the number of bytes that are left, so it fits.
	s.at += int(n)
	return s.b[s.at-int(n) : s.at], true
}
