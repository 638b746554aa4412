package cqlclient

import (
	"bytes"
	"encoding/hex"
	"io"
	"testing"
)

// TestSegmentVectors has an OPTIONS envelope in its own segment, as the specification encodes it.
func TestSegmentVectors(t *testing.T) {
	envelope, _ := hex.DecodeString("050000010500000000")
	if got := hex.EncodeToString(appendSegments(nil, envelope)); got != "090002a4c8c1050000010500000000b5557486" {
		t.Errorf("segment %s", got)
	}
}

// The envelope has 320,000 bytes, which are three segments.
func TestSegmentsCarryLargeEnvelopes(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	got, err := io.ReadAll(&segmentReader{src: bytes.NewReader(appendSegments(nil, want))})
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes instead of %d, %v", len(got), len(want), err)
	}
}

func TestSegmentDamageIsNoticed(t *testing.T) {
	whole := appendSegments(nil, []byte("an envelope"))
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x10
		if _, err := io.ReadAll(&segmentReader{src: bytes.NewReader(bad)}); err == nil {
			t.Errorf("a changed bit in byte %d was accepted", i)
		}
	}
}

func TestText(t *testing.T) {
	list := Type{ID: tList, Args: []Type{{ID: tInt}}}
	for _, c := range []struct {
		typ  Type
		hex  string
		want string
	}{
		{Type{ID: tInt}, "fffffffe", "-2"},
		{Type{ID: tInt}, "", "empty"},
		{Type{ID: tInt}, "01", "malformed int 0x01"},
		{Type{ID: tVarint}, "0080", "128"},
		{Type{ID: tDecimal}, "0000000296", "-106e-2"},
		{Type{ID: tVarchar}, "6927730a", `'i''s\n'`},
		{Type{ID: tBoolean}, "01", "true"},
		{Type{ID: tFloat}, "3fc00000", "1.5"},
		{Type{ID: tDate}, "80000001", "'1970-01-02'"},
		{Type{ID: tTime}, "0000000000000001", "'00:00:00.000000001'"},
		{Type{ID: tTimestamp}, "ffffffffffffffff", "'1969-12-31 23:59:59.999+0000'"},
		{Type{ID: tInet}, "7f000001", "'127.0.0.1'"},
		{Type{ID: tDuration}, "010405", "-1mo2d-3ns"},
		{list, "0000000200000004000000010000000400000002", "[1, 2]"},
		{list, "00000001ffffffff", "[null]"},
		{list, "0000000200000004000000", "malformed list<int> 0x0000000200000004000000"},
		{Type{ID: tMap, Args: []Type{{ID: tVarchar}, {ID: tInt}}}, "000000010000000161000000040000000a", "{'a': 10}"},
	} {
		b, _ := hex.DecodeString(c.hex)
		if got := c.typ.Text(b); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.typ, c.hex, got, c.want)
		}
	}
	if got := (Type{ID: tInt}).Text(nil); got != "null" {
		t.Errorf("null: %s", got)
	}
}
