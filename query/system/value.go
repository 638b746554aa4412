package system

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"cqld/internal/wire"
)

// Values in wire form (native protocol v5 §6). None of them is nil, so that "" is not null.

// text returns a text. The empty string is a value, not null.
func text(s string) []byte { return append([]byte{}, s...) }

// textOrNull returns null for "".
func textOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// integer returns an int.
func integer(n int32) []byte { return wire.AppendInt32(nil, n) }

// bigint returns a bigint.
func bigint(n int64) []byte { return wire.AppendInt64(nil, n) }

// double returns a double.
func double(f float64) []byte { return wire.AppendUint64(nil, math.Float64bits(f)) }

// timestampOrNull returns null for the zero time.
func timestampOrNull(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return bigint(t.UnixMilli())
}

func boolean(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

// uuid returns a uuid or timeuuid.
func uuid(id [16]byte) []byte { return append([]byte{}, id[:]...) }

// inet returns an address of 4 or 16 bytes. IPv4 addresses that are mapped to IPv6 are shown as IPv4.
func inet(a netip.Addr) []byte { return a.Unmap().AsSlice() }

// texts returns a list or set of text, in the given order. The caller sorts the elements of a set.
func texts(list []string) []byte {
	// The number of elements, and each with its length.
	b := wire.AppendInt32(nil, int32(len(list)))
	for _, s := range list {
		b = wire.AppendBytes(b, text(s))
	}
	return b
}

// textMap returns a map of text to text, sorted by key.
func textMap(m map[string]string) []byte {
	b := wire.AppendInt32(nil, int32(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = wire.AppendBytes(b, text(k))
		b = wire.AppendBytes(b, text(m[k]))
	}
	return b
}
