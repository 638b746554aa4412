package cqlclient

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Text renders a value so that different bytes result in different texts: decimals as unscaled value and scale,
// durations as their three parts, the empty value of a type that has other values as "empty". The form is not CQL
// everywhere; it is made to be compared, not to be parsed. For example:
//
//	null  'it''s'  0x00ff  [1, 2]  {'a': 1}  (1, null)  150e-2  1mo2d3ns  empty
func (t Type) Text(b []byte) string {
	if b == nil {
		return "null"
	}
	switch t.ID {
	case tASCII, tVarchar:
		// The empty string is a value of these types, so it is '' and not "empty".
		return quoteText(string(b))
	case tBlob, tCustom:
		return "0x" + hex.EncodeToString(b)
	case tList, tSet, tMap, tTuple, tUDT:
		return t.nestedText(b)
	}
	if len(b) == 0 {
		return "empty"
	}
	s, ok := t.scalarText(b)
	if !ok {
		return fmt.Sprintf("malformed %s 0x%x", t, b)
	}
	return s
}

// quoteText returns a CQL literal on one line. Control characters are escaped with backslashes, which CQL does not
// know.
func quoteText(s string) string {
	return "'" + strings.NewReplacer("'", "''", "\\", "\\\\", "\n", "\\n", "\r", "\\r", "\t", "\\t", "\x00",
		"\\0").Replace(s) + "'"
}

// fixedSizes contains the types whose values have a fixed size. A zero means that the size is not fixed, or that the id
// is no type.
var fixedSizes = [...]int{
	tBigint: 8, tCounter: 8, tTimestamp: 8, tTime: 8, tDouble: 8, tFloat: 4, tInt: 4, tDate: 4, tSmallint: 2,
	tTinyint: 1, tBoolean: 1,
	tUUID: 16, tTimeUUID: 16, tDuration: 0,
}

// scalarText renders a value of a native type; false means that the bytes are not valid. The empty value was handled by
// the caller.
func (t Type) scalarText(b []byte) (string, bool) {
	if t.ID < len(fixedSizes) && fixedSizes[t.ID] != 0 && len(b) != fixedSizes[t.ID] {
		return "", false
	}
	switch t.ID {
	// Two's complement of any length, big-endian.
	case tBigint, tCounter, tVarint, tInt, tSmallint, tTinyint:
		return signed(b).String(), true
	case tBoolean:
		return strconv.FormatBool(b[0] != 0), true
	case tDecimal:
		if len(b) < 5 {
			return "", false
		}
		// The scale is kept: 1.0 and 1.00 are different bytes. 1.50 is 150e-2.
		return fmt.Sprintf("%de%d", signed(b[4:]), -int64(int32(binary.BigEndian.Uint32(b)))), true
	case tDouble:
		return floatText(math.Float64frombits(binary.BigEndian.Uint64(b)), 64), true
	case tFloat:
		return floatText(float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 32), true
	case tUUID, tTimeUUID:
		// Without a check of the version: any 16 bytes are a uuid.
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), true
	case tInet:
		a, ok := netip.AddrFromSlice(b)
		return "'" + a.String() + "'", ok
	}
	return t.temporalText(b)
}

// temporalText is scalarText for dates, times and durations. Timestamps are milliseconds since 1970, times nanoseconds
// since midnight.
func (t Type) temporalText(b []byte) (string, bool) {
	switch t.ID {
	case tTimestamp:
		ms := int64(binary.BigEndian.Uint64(b))
		return "'" + time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000-0700") + "'", true
	case tDate:
		// Unsigned days, with 1970-01-01 in the middle.
		days := int64(binary.BigEndian.Uint32(b)) - 1<<31
		return "'" + time.Unix(days*86400, 0).UTC().Format("2006-01-02") + "'", true
	case tTime:
		ns := int64(binary.BigEndian.Uint64(b))
		return "'" + time.Unix(0, ns).UTC().Format("15:04:05.000000000") + "'", ns >= 0 && ns < 86400e9
	// Three signed vints.
	case tDuration:
		months, b1 := vint(b)
		days, b2 := vint(b1)
		nanos, rest := vint(b2)
		return fmt.Sprintf("%dmo%dd%dns", months, days, nanos), len(rest) == 0
	}
	return "", false
}

// floatText renders a float with the fewest digits that identify it. NaN has one text, whatever its bits are.
func floatText(f float64, bits int) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}

// signed decodes two's complement. No bytes are 0.
func signed(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(len(b)*8)))
	}
	return v
}

// vint decodes a zig-zag variable length integer. The specification calls it [vint]; each leading one bit of the first
// byte announces one more byte. A value that is cut off is 0 with no rest. For example:
//
//	00       0
//	01       -1
//	02       1
//	81 00    128
func vint(b []byte) (int64, []byte) {
	if len(b) == 0 {
		return 0, nil
	}
	extra := 0
	// The leading one bits of the first byte count the bytes after it.
	for extra < 8 && b[0]&(0x80>>extra) != 0 {
		extra++
	}
	if len(b) < extra+1 {
		return 0, nil
	}
	u := uint64(b[0]) & (0xff >> (extra + 1))
	for _, c := range b[1 : extra+1] {
		u = u<<8 | uint64(c)
	}
	return int64(u>>1) ^ -int64(u&1), b[extra+1:]
}

// nestedText renders a collection, a tuple or a value of a user-defined type, whose fields have no names here. Its
// elements are [bytes]; collections begin with their number as [int].
func (t Type) nestedText(b []byte) string {
	r := &reader{b: b}
	var parts []string
	brackets := "()"
	switch t.ID {
	case tList, tSet:
		brackets = map[int]string{tList: "[]", tSet: "{}"}[t.ID]
		for n := r.int(); n > 0 && r.err == nil; n-- {
			parts = append(parts, t.Args[0].Text(r.bytes()))
		}
	case tMap:
		brackets = "{}"
		for n := r.int(); n > 0 && r.err == nil; n-- {
			k := t.Args[0].Text(r.bytes())
			parts = append(parts, k+": "+t.Args[1].Text(r.bytes()))
		}
	default:
		// A value may lack its last fields, which were added to the type later. A field that is not there is not shown,
		// unlike a null.
		for i := 0; i < len(t.Args) && len(r.b) > 0; i++ {
			parts = append(parts, t.Args[i].Text(r.bytes()))
		}
	}
	if r.err != nil || len(r.b) != 0 {
		return fmt.Sprintf("malformed %s 0x%x", t, b)
	}
	return brackets[:1] + strings.Join(parts, ", ") + brackets[1:]
}
