package wire

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// everything appends one value of each notation.
func everything(dst []byte) []byte {
	dst = append(dst, 0xAB)
	dst = AppendUint16(dst, 0xABCD)
	dst = AppendUint32(dst, 0xDEADBEEF)
	dst = AppendUint64(dst, math.MaxUint64-1)
	dst = AppendInt32(dst, math.MinInt32)
	dst = AppendInt64(dst, math.MinInt64)
	dst = AppendUvarint(dst, 300)
	dst = AppendVarint(dst, -300)
	dst = AppendString(dst, "näme")
	dst = AppendLongString(dst, "SELECT 1")
	dst = AppendBytes(dst, nil)
	dst = AppendBytes(dst, []byte{})
	dst = AppendBytes(dst, []byte{1, 2})
	dst = AppendShortBytes(dst, []byte{9})
	dst = AppendValue(dst, Value{})
	dst = AppendValue(dst, Value{Kind: ValueUnset})
	dst = AppendValue(dst, BytesValue([]byte{7}))
	dst = AppendInet(dst, netip.MustParseAddrPort("127.0.0.3:9042"))
	dst = AppendInet(dst, netip.MustParseAddrPort("[::1]:9043"))
	dst = AppendUUID(dst, [16]byte{1, 15: 2})
	dst = AppendUnsignedVint(dst, 1<<40)
	return AppendVint(dst, -5)
}

func TestConsumeInvertsAppend(t *testing.T) {
	c := NewCursor(everything(nil))
	check := func(name string, ok bool) {
		t.Helper()
		if !ok || c.Err() != nil {
			t.Errorf("%s does not come back (err %v)", name, c.Err())
		}
	}
	check("uint8", c.Uint8() == 0xAB)
	check("uint16", c.Uint16() == 0xABCD)
	check("uint32", c.Uint32() == 0xDEADBEEF)
	check("uint64", c.Uint64() == math.MaxUint64-1)
	check("int32", c.Int32() == math.MinInt32)
	check("int64", c.Int64() == math.MinInt64)
	check("uvarint", c.Uvarint() == 300)
	check("varint", c.Varint() == -300)
	check("string", c.String() == "näme")
	check("long string", c.LongString() == "SELECT 1")
	check("null bytes", c.Bytes() == nil)
	empty := c.Bytes()
	check("empty bytes", empty != nil && len(empty) == 0)
	check("bytes", bytes.Equal(c.Bytes(), []byte{1, 2}))
	check("short bytes", bytes.Equal(c.ShortBytes(), []byte{9}))
	check("null value", c.Value().Kind == ValueNull)
	check("unset value", c.Value().Kind == ValueUnset)
	v := c.Value()
	check("value", v.Kind == ValueSet && bytes.Equal(v.Bytes, []byte{7}))
	check("inet 4", c.Inet() == netip.MustParseAddrPort("127.0.0.3:9042"))
	check("inet 6", c.Inet() == netip.MustParseAddrPort("[::1]:9043"))
	check("uuid", c.UUID() == [16]byte{1, 15: 2})
	check("unsigned vint", c.UnsignedVint() == 1<<40)
	check("vint", c.Vint() == -5)
	if err := c.Finish(); err != nil {
		t.Errorf("Finish: %v", err)
	}
}

// Every proper prefix of a message must fail, and the failure must be sticky.
func TestTruncatedInputFails(t *testing.T) {
	whole := everything(nil)
	for n := range len(whole) {
		c := NewCursor(whole[:n])
		consumeEverything(&c)
		if !errors.Is(c.Err(), ErrShort) {
			t.Fatalf("prefix of %d bytes: err = %v, want ErrShort", n, c.Err())
		}
		if c.Len() != 0 || c.Uint8() != 0 {
			t.Fatalf("prefix of %d bytes: cursor yields bytes after a failure", n)
		}
	}
}

func consumeEverything(c *Cursor) {
	c.Uint8()
	c.Uint16()
	c.Uint32()
	c.Uint64()
	c.Int32()
	c.Int64()
	c.Uvarint()
	c.Varint()
	c.ShortBytes()
	c.LongStringBytes()
	c.Bytes()
	c.Bytes()
	c.Bytes()
	c.ShortBytes()
	c.Value()
	c.Value()
	c.Value()
	c.Inet()
	c.Inet()
	c.UUID()
	c.UnsignedVint()
	c.Vint()
}

func TestVintIsCassandras(t *testing.T) {
	// The leading ones of the first byte count the following bytes.
	vectors := []struct {
		v    uint64
		want []byte
	}{
		{0, []byte{0}},
		{127, []byte{0x7F}},
		{128, []byte{0x80, 0x80}},
		{16383, []byte{0xBF, 0xFF}},
		{16384, []byte{0xC0, 0x40, 0x00}},
		{1<<56 - 1, []byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}},
		{1 << 56, []byte{0xFF, 1, 0, 0, 0, 0, 0, 0, 0}},
		{math.MaxUint64, bytes.Repeat([]byte{0xFF}, 9)},
	}
	for _, vector := range vectors {
		got := AppendUnsignedVint(nil, vector.v)
		if !bytes.Equal(got, vector.want) {
			t.Errorf("unsigned vint %d = % x, want % x", vector.v, got, vector.want)
		}
	}
	roundTrip := func(u uint64, s int64, shift uint8) bool {
		u >>= shift % 64
		s >>= shift % 64
		c := NewCursor(AppendVint(AppendUnsignedVint(nil, u), s))
		return c.UnsignedVint() == u && c.Vint() == s && c.Finish() == nil &&
			len(AppendUnsignedVint(nil, u)) == UnsignedVintSize(u)
	}
	if err := quick.Check(roundTrip, nil); err != nil {
		t.Error(err)
	}
}

func TestMalformedValuesFail(t *testing.T) {
	cases := map[string]func(*Cursor){
		"value of length -3":          func(c *Cursor) { *c = NewCursor(AppendInt32(nil, -3)); c.Value() },
		"long string of length -1":    func(c *Cursor) { *c = NewCursor(AppendInt32(nil, -1)); c.LongStringBytes() },
		"inet of 5 bytes":             func(c *Cursor) { *c = NewCursor([]byte{5, 1, 2, 3, 4, 5}); c.InetAddr() },
		"inet with port 65536":        func(c *Cursor) { *c = NewCursor([]byte{4, 1, 2, 3, 4, 0, 1, 0, 0}); c.Inet() },
		"uvarint of 11 bytes":         func(c *Cursor) { *c = NewCursor(bytes.Repeat([]byte{0x80}, 11)); c.Uvarint() },
		"negative count":              func(c *Cursor) { *c = NewCursor(AppendInt32(nil, -1)); c.IntCount(1) },
		"bytes left over at the end":  func(c *Cursor) { *c = NewCursor([]byte{1}); _ = c.Finish() },
		"a failure set by the caller": func(c *Cursor) { c.Fail(ErrMalformed) },
	}
	for name, run := range cases {
		var c Cursor
		run(&c)
		if !errors.Is(c.Err(), ErrMalformed) {
			t.Errorf("%s: err = %v, want ErrMalformed", name, c.Err())
		}
	}
}

// A small message that declares billions of elements must not cause large allocations.
func TestCountsAreCheckedBeforeAllocation(t *testing.T) {
	counts := map[string]func(c *Cursor) int{
		"uvarint": func(c *Cursor) int { return c.Count(1) },
		"short":   func(c *Cursor) int { return c.ShortCount(1) },
		"int":     func(c *Cursor) int { return c.IntCount(1) },
	}
	input := bytes.Repeat([]byte{0x7F}, 12)
	for name, count := range counts {
		c := NewCursor(input)
		n := count(&c)
		if n > len(input) {
			t.Errorf("%s count = %d from %d bytes", name, n, len(input))
		}
	}
	list := NewCursor([]byte{0xFF, 0xFF, 0, 0})
	if got := testing.AllocsPerRun(100, func() { c := list; c.StringList() }); got != 0 {
		t.Errorf("a [string list] that exceeds its bytes allocates %v times", got)
	}
}

func TestAppendStringCutsAtTheNotationsLimit(t *testing.T) {
	// The last one is not UTF-8, so nothing precedes a character.
	for text, want := range map[string]int{"x": 65535, "é": 65534, "xé": 65535, "€": 65535, "x€": 65533, "𝄞": 65532,
		"\x80": 65531} {
		c := NewCursor(AppendString(nil, strings.Repeat(text, 70000)))
		if got := c.String(); len(got) != want || c.Finish() != nil || utf8.ValidString(text) != utf8.ValidString(got) {
			t.Errorf("70000 times %q was decoded to %d bytes, not %d (err %v)", text, len(got), want, c.Err())
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 512)
	if got := testing.AllocsPerRun(100, func() { buf = everything(buf[:0]) }); got != 0 {
		t.Errorf("append allocates %v times", got)
	}
	if got := testing.AllocsPerRun(100, func() {
		c := NewCursor(buf)
		consumeEverything(&c)
		if c.Finish() != nil {
			panic(c.Err())
		}
	}); got != 0 {
		t.Errorf("consume allocates %v times", got)
	}
}

func FuzzCursorNeverPanics(f *testing.F) {
	f.Add(everything(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xFF}, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewCursor(data)
		consumeEverything(&c)
		c.StringList()
		if c.Len() > len(data) {
			t.Errorf("cursor has %d bytes left of %d", c.Len(), len(data))
		}
	})
}
