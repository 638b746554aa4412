package frame

import "cqld/internal/wire"

// What decoded requests take besides their bodies. They bound what a request may allocate, before it is decoded; a
// server charges them to the budget of the connection. The sizes are of Go's structures on 64-bit machines.
const (
	valueBytes = 32 // wire.Value
	nameBytes  = 48 // of its name: the string, and a copy of 32 bytes
	// statementBytes is a BatchStatement and what the server makes of it.
	statementBytes = 128
)

// DecodedBytes returns how many bytes of memory are needed for the decoded statements and values of a body of QUERY,
// EXECUTE or BATCH, in addition to the body and to the copies of its texts, which are no larger than it. A null value
// of 4 bytes takes valueBytes. It allocates nothing and leaves errors to Consume. c is after the prefix. A request of
// 16 MiB of null values would otherwise allocate 128 MiB without being charged for them.
func DecodedBytes(op Opcode, c wire.Cursor, v Version) int {
	switch op {
	case OpQuery:
		// The text itself; its copy is charged with the body.
		c.LongStringBytes()
		return paramsBytes(&c, v)
	case OpExecute:
		c.ShortBytes()
		if v >= V5 {
			c.ShortBytes()
		}
		return paramsBytes(&c, v)
	case OpBatch:
		// The type of the batch.
		c.Uint8()
		statements, values := countBatch(&c)
		return statements*statementBytes + values*valueBytes
	}
	return 0
}

// paramsBytes is the part of DecodedBytes for query parameters. It stops after the count of values, since later fields
// need no memory of their own.
func paramsBytes(c *wire.Cursor, v Version) int {
	// The consistency.
	c.Uint16()
	var flags uint32
	if v >= V5 {
		flags = c.Uint32()
	} else {
		flags = uint32(c.Uint8())
	}
	switch {
	case flags&paramValues == 0:
		return 0
	case flags&paramNames != 0:
		// The count is bounded by the bytes that are left: each value takes at least a length of 2 and one of 4 bytes.
		return c.ShortCount(2+4) * (nameBytes + valueBytes)
	}
	return c.ShortCount(4) * valueBytes
}

// countBatch consumes the statements of a batch, and returns the numbers of statements and values. It reads the lengths
// only, and copies nothing.
func countBatch(c *wire.Cursor) (statements, values int) {
	statements = c.ShortCount(batchStatementMin)
	for range statements {
		if c.Uint8() == batchKindText {
			c.LongStringBytes()
		} else {
			c.ShortBytes()
		}
		n := c.ShortCount(4)
		// The count is added before the values are read: a body that ends early costs at most what it announces, and
		// ShortCount has bounded that by the bytes left.
		for values += n; n > 0 && c.Err() == nil; n-- {
			c.Value()
		}
	}
	return statements, values
}
