package logcheck

import (
	"errors"
	"io"
)

// Records reads the records of a write-ahead log, beginning between any two of them. One goroutine may use it. It
// does not detect whether the bytes that end the log are corrupt; Log does.
type Records struct {
	file   io.ReaderAt
	number uint64
	limit  int64
	at     int64  // of the next chunk
	block  []byte // shorter than blockSize at the limit and at the end of the file
	start  int64  // of block in the file; -1 means that none was read
	record []byte // memory of the result of Next
}

// NewRecords returns a reader of the log with a number. offset is where a record ends, or 0, and limit is the number of
// bytes that may be read.
func NewRecords(file io.ReaderAt, number uint64, offset, limit int64) *Records {
	return &Records{file: file, number: number, limit: limit, at: offset, start: -1}
}

// Next returns the next record, which is valid until the next call, and where it ends. It returns io.EOF if no whole
// record follows before the limit: the log ends there, or its next bytes cannot be read (Stopped).
func (r *Records) Next() (record []byte, end int64, err error) {
	r.record = r.record[:0]
	for first := true; ; first = false {
		c, err := r.chunk()
		if err != nil {
			return nil, 0, err
		}
		// The chunks of a record follow each other. A first chunk within a record is the rest of an older log.
		if c.format.first != first {
			return nil, 0, io.EOF
		}
		r.at += int64(len(c.bytes))
		r.record = append(r.record, c.bytes[c.format.header:]...)
		if c.format.last {
			return r.record, r.at, nil
		}
	}
}

// Stopped returns the number of bytes before the chunk that Next could not read, or the limit.
func (r *Records) Stopped() int64 { return min(r.at, r.limit) }

// chunk returns the chunk at r.at, without moving. The error is io.EOF if it cannot be read.
func (r *Records) chunk() (c chunk, err error) {
	for {
		if err := r.read(); err != nil {
			return c, err
		}
		// The writer fills the end of a block with zeros if no header fits there. If the block is not complete, the
		// padding may still be written.
		s := scan{block: r.block}
		at := int(r.at - r.start)
		if len(r.block)-at < legacyHeader && len(r.block) == blockSize || s.padding(at) {
			r.at = r.start + blockSize
			continue
		}
		c, ok := chunkAt(r.block[at:], func(c chunk) bool { return c.format.log && c.number() == uint32(r.number) })
		// A chunk of another log ends this one, as does the trailer of a closed log.
		if !ok {
			return c, io.EOF
		}
		return c, nil
	}
}

// read reads the block of the file with the byte at r.at.
func (r *Records) read() error {
	if r.at >= r.limit {
		return io.EOF
	}
	// The file is read in whole blocks, because chunks are small and each read of an encrypted file has a fixed cost.
	start := r.at - r.at%blockSize
	if start == r.start {
		return nil
	}
	if cap(r.block) < blockSize {
		r.block = make([]byte, blockSize)
	}
	r.block = r.block[:min(blockSize, r.limit-start)]
	// The file may be shorter than the limit.
	n, err := r.file.ReadAt(r.block, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if r.block, r.start = r.block[:n], start; r.at >= start+int64(n) {
		return io.EOF
	}
	return nil
}
