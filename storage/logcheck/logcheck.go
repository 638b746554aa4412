package logcheck

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Corrupt describes a chunk of a log that was synced and cannot be read.
type Corrupt struct {
	Offset int64 // of the chunk in the file
}

// Error implements error.
func (c *Corrupt) Error() string {
	return fmt.Sprintf("the record at byte %d has changed since it was written", c.Offset)
}

// Log reads the write-ahead log with a number, and returns a Corrupt if there is evidence of one. Other errors are
// errors of the reader. A log may reuse the file of an older one; chunks of the older log end it.
func Log(r io.Reader, number uint64) error {
	return check(r, func(s *scan) bool { return s.log(uint32(number)) })
}

// Manifest is Log for a MANIFEST.
func Manifest(r io.Reader) error { return check(r, (*scan).manifest) }

// check calls next with one block after the other, until it returns true: the chunk at scan.invalid is corrupt.
func check(r io.Reader, next func(*scan) bool) error {
	s := &scan{invalid: -1}
	buf := make([]byte, blockSize)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			s.block = buf[:n]
			if next(s) {
				return &Corrupt{Offset: s.invalid}
			}
			s.base += int64(n)
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // io.ReadFull returns them as they are
			return nil
		case err != nil:
			return err
		}
	}
}

// scan is the state of a check.
type scan struct {
	block   []byte
	base    int64 // offset of block in the file
	invalid int64 // offset of the first chunk that cannot be read; -1 means none yet
}

// log checks a block of a write-ahead log.
func (s *scan) log(number uint32) bool {
	at := s.skip(func(c chunk) bool { return c.format.log && c.number() == number })
	if s.invalid < 0 {
		return false
	}
	if s.base+int64(at) == s.invalid {
		if s.changedBit(at, number) {
			return true
		}
		at++
	}
	for at < len(s.block) {
		c, ok := chunkAt(s.block[at:], func(c chunk) bool { return c.format.synced && c.number() == number })
		if !ok {
			at++
			continue
		}
		if c.syncedTo() > uint64(s.invalid) {
			return true
		}
		at += len(c.bytes)
	}
	return false
}

// manifest checks a block of a MANIFEST.
func (s *scan) manifest() bool {
	at := s.skip(func(c chunk) bool { return !c.format.log })
	if s.invalid < 0 {
		return false
	}
	if s.base+int64(at) == s.invalid {
		at++
	}
	for ; at < len(s.block); at++ {
		// A later chunk of the same record is no evidence.
		if _, ok := chunkAt(s.block[at:], func(c chunk) bool { return !c.format.log && c.format.first }); ok {
			return true
		}
	}
	return false
}

// skip returns the position of the first chunk of the block that cannot be read or is not accepted, and notes it as
// invalid. The block may have no such chunk; then skip returns its end. If an earlier block has one, it returns 0.
func (s *scan) skip(accept func(chunk) bool) int {
	if s.invalid >= 0 {
		return 0
	}
	at := 0
	// A rest that is shorter than a header is padding.
	for len(s.block)-at >= legacyHeader {
		c, ok := chunkAt(s.block[at:], accept)
		if !ok {
			if s.padding(at) {
				break
			}
			s.invalid = s.base + int64(at)
			return at
		}
		at += len(c.bytes)
	}
	return len(s.block)
}

// padding reports whether the rest of a whole block is too short for a chunk, and zero.
func (s *scan) padding(at int) bool {
	rest := s.block[at:]
	if len(s.block) < blockSize || len(rest) >= syncHeader {
		return false
	}
	for _, b := range rest {
		if b != 0 {
			return false
		}
	}
	return true
}

// changedBit reports whether the chunk at a position can be read after the change of one bit, and the next one as it
// is. A write that was interrupted leaves whole sectors of the disk as they were before, not one bit.
func (s *scan) changedBit(at int, number uint32) bool {
	end, ok := repaired(s.block[at:], number)
	if !ok || at+end >= len(s.block) {
		return false
	}
	_, ok = chunkAt(s.block[at+end:], func(c chunk) bool { return c.format.log && c.number() == number })
	return ok
}

// chunk is a chunk that can be read.
type chunk struct {
	format format
	bytes  []byte // with its header
}

// number returns the number of the log to which a chunk belongs.
func (c chunk) number() uint32 { return binary.LittleEndian.Uint32(c.bytes[7:]) }

// syncedTo returns the length of the log that was synced before the chunk was written.
func (c chunk) syncedTo() uint64 { return binary.LittleEndian.Uint64(c.bytes[11:]) }

// chunkAt returns the chunk at the beginning of b, if it can be read and is accepted. accept is called before the
// checksum is computed, which takes most of the time.
func chunkAt(b []byte, accept func(chunk) bool) (c chunk, ok bool) {
	if len(b) < legacyHeader {
		return c, false
	}
	c.format, ok = formatOf(b[6])
	if !ok || len(b) < c.format.header {
		return c, false
	}
	end := c.format.header + int(binary.LittleEndian.Uint16(b[4:]))
	if end > len(b) {
		return c, false
	}
	c.bytes = b[:end]
	return c, accept(c) && checksum(c.bytes[6:]) == binary.LittleEndian.Uint32(b)
}
