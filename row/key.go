package row

import "cqld/internal/wire"

// The partition key of one column is its value. The key of several columns contains, for each of them, a 2-byte length,
// the value, and a zero byte, as in Cassandra.

// AppendKeyComponents appends the partition key with these values. A value of a composite key must be shorter than 64
// KiB.
func AppendKeyComponents(dst []byte, values [][]byte) []byte {
	if len(values) == 1 {
		return append(dst, values[0]...)
	}
	for _, v := range values {
		// A longer value would wrap. The caller has checked the length.
		dst = wire.AppendUint16(dst, uint16(len(v)))
		dst = append(dst, v...)
		dst = append(dst, 0)
	}
	return dst
}

// KeyComponents appends the n values of a partition key to dst. They point into key. A malformed key yields empty
// values.
func KeyComponents(dst [][]byte, key []byte, n int) [][]byte {
	if n == 1 {
		return append(dst, key)
	}
	c := wire.NewCursor(key)
	for range n {
		dst = append(dst, notNull(c.ShortBytes()))
		// The zero byte that ends the component.
		c.Skip(1)
	}
	return dst
}

// keyComponent returns one value of a partition key of n columns. ok is false if the key has too few bytes.
func keyComponent(key []byte, position, n int) (v []byte, ok bool) {
	if n == 1 {
		return notNull(key), position == 0
	}
	c := wire.NewCursor(key)
	for range position {
		// The value and its zero byte.
		c.Skip(int(c.Uint16()) + 1)
	}
	v = c.ShortBytes()
	return notNull(v), c.Err() == nil
}
