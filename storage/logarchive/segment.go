package logarchive

import (
	"encoding/binary"
	"fmt"
	"iter"

	"cqld/schema"
)

// Segment is a part of a node's log: whole batches, in the order of the log.
type Segment struct {
	// From and To are where the segment begins and ends. The next one begins at To. They are equal if there was nothing
	// to read.
	From, To Position
	// First and Last are the smallest and the greatest stamp of its batches, in microseconds; 0 if it has none.
	First, Last int64
	// Until, in microseconds, means that each batch with a stamp of at most Until is before To. It is 0 if that is not
	// known, because the log continues after To.
	Until int64
	// Ingested means that the rows of ingested files are in the log. Earlier builds of cqld did not log them.
	Ingested bool
	// Data contains the fields above and the batches. The caller of ReadLog owns it.
	Data []byte
}

// The form of Data:
//
//	"CQLG", version 2, From 24, To 24, First 8, Last 8, Until 8, then for each batch:
//	log uvarint, offset of its end in the log uvarint, length uvarint, batch
//
// The fields of fixed size are little endian. In version 1, the log has no rows of ingested files.
const (
	magic       = "CQLG"
	version     = 2
	rowless     = 1 // the version before
	headerBytes = len(magic) + 1 + 2*24 + 3*8
)

// Malformed is the error for bytes that are not the Data of a Segment.
type Malformed struct {
	Offset int // of the bytes that cannot be read
	Reason string
}

// Error implements error.
func (m *Malformed) Error() string {
	return fmt.Sprintf("logarchive: malformed segment at byte %d: %s", m.Offset, m.Reason)
}

// seal writes the fields of s to the header of its Data, which has space for it.
func (s *Segment) seal() {
	// The fields are in the order of the struct, in which ReadHeader reads them.
	h := append(append(s.Data[:0], magic...), version)
	for _, field := range []uint64{
		uint64(s.From.Since), s.From.Log, s.From.Offset, uint64(s.To.Since), s.To.Log, s.To.Offset,
		uint64(s.First), uint64(s.Last), uint64(s.Until),
	} {
		h = binary.LittleEndian.AppendUint64(h, field)
	}
}

// add appends a batch that ends at an offset of a log.
func (s *Segment) add(log, end uint64, batch []byte, stamp int64) {
	s.Data = binary.AppendUvarint(s.Data, log)
	s.Data = binary.AppendUvarint(s.Data, end)
	s.Data = append(binary.AppendUvarint(s.Data, uint64(len(batch))), batch...)
	// Pebble's own batches have no stamp.
	if stamp == 0 {
		return
	}
	if s.First == 0 || stamp < s.First {
		s.First = stamp
	}
	s.Last = max(s.Last, stamp)
}

// ReadHeader returns the segment with this Data, without comparing its batches with the header. The error is
// *Malformed.
func ReadHeader(data []byte) (Segment, error) {
	if len(data) < headerBytes || string(data[:len(magic)]) != magic {
		return Segment{}, &Malformed{0, "it has no header"}
	}
	v := data[len(magic)]
	if v != version && v != rowless {
		return Segment{}, &Malformed{len(magic),
			fmt.Sprintf("it has version %d; this release reads versions %d and %d", v, rowless, version)}
	}
	at := len(magic) + 1
	next := func() uint64 {
		at += 8
		return binary.LittleEndian.Uint64(data[at-8:])
	}
	position := func() Position { return Position{Since: int64(next()), Log: next(), Offset: next()} }
	s := Segment{From: position(), To: position(), Ingested: v != rowless, Data: data}
	s.First, s.Last, s.Until = int64(next()), int64(next()), int64(next())
	// A segment contains one archive only.
	if s.From.Compare(s.To) > 0 || s.From.Since != s.To.Since {
		return Segment{}, &Malformed{len(magic) + 1, "it ends before it begins"}
	}
	return s, nil
}

// Record is a batch in a segment.
type Record struct {
	End   Position
	Batch []byte // in Pebble's form; part of the segment's Data
	// Stamp is in microseconds; 0 means that the batch has none.
	Stamp int64
	// Foreign is a table that ingested rows from outside the ring at Stamp; 0 means none.
	Foreign schema.StorageID
	// Changes means that the batch changes data.
	Changes bool
	// Files contains the numbers of files that Pebble ingested at this place of the log. The batch contains nothing
	// else.
	Files []uint64
	// Rows is a batch of rows that were ingested, in Pebble's form; part of the segment's Data. nil means none.
	Rows []byte
}

// Records returns the batches of a segment, in the order of the log. It ends after the first error, *Malformed.
func (s *Segment) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		last := s.From
		for at := headerBytes; at < len(s.Data); {
			r, n, err := s.record(at, last)
			if !yield(r, err) || err != nil {
				return
			}
			at, last = at+n, r.End
		}
	}
}

// record reads the batch at an offset of Data, which must end after a position. n is its length in Data.
func (s *Segment) record(at int, after Position) (r Record, n int, err error) {
	rest := s.Data[at:]
	var fields [2]uint64
	for i := range fields {
		v, size := binary.Uvarint(rest)
		if size <= 0 {
			return r, 0, &Malformed{at, "a batch has no position"}
		}
		fields[i], rest = v, rest[size:]
	}
	batch, rest, err := cutString(rest)
	if err != nil {
		return r, 0, &Malformed{at, "a batch ends after the segment"}
	}
	// Positions must rise: a reader skips what is before the position that it has reached.
	end := Position{Since: s.From.Since, Log: fields[0], Offset: fields[1]}
	if end.Compare(after) <= 0 || end.Compare(s.To) > 0 {
		return r, 0, &Malformed{at, fmt.Sprintf("a batch ends at %s, which is not between %s and %s", end, after, s.To)}
	}
	c, err := parse(batch)
	if err != nil {
		return r, 0, &Malformed{at, err.Error()}
	}
	r = Record{End: end, Batch: batch, Stamp: c.stamp, Foreign: c.foreign, Changes: c.changes, Files: c.files,
		Rows: c.rows}
	return r, len(s.Data) - at - len(rest), nil
}
