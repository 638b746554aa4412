package frame

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// mustHex returns the bytes written in s.
func mustHex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestPayloadCRCIsSeeded(t *testing.T) {
	if got := crc32.ChecksumIEEE([]byte{0xFA, 0x2D, 0x55, 0xCA}); got != crc32Initial {
		t.Errorf("the state after the seed is %#X, not %#X", got, uint32(crc32Initial))
	}
}

// The table must match the bitwise definition in the specification.
func TestCRC24IsThePolynomial(t *testing.T) {
	bitwise := func(v uint64, n int) uint32 {
		crc := uint32(crc24Initial)
		for range n {
			crc ^= uint32(v&0xFF) << 16
			v >>= 8
			for range 8 {
				if crc <<= 1; crc&0x1000000 != 0 {
					crc ^= crc24Poly
				}
			}
		}
		return crc
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		v := random.Uint64()
		for _, n := range []int{3, 5} {
			if got, want := crc24(v, n), bitwise(v, n); got != want {
				t.Fatalf("crc24(%#x, %d) = %#x, want %#x", v, n, got, want)
			}
		}
	}
}

func TestSegmentVectors(t *testing.T) {
	options := mustHex(t, "050000010500000000")
	cases := []struct {
		name    string
		lz4     *Compressor
		payload []byte
		want    string
	}{
		{"plain", nil, options, "090002a4c8c1" + "050000010500000000" + "b5557486"},
		{"lz4 stored", NewCompressor(), options, "0900000004c2b895" + "050000010500000000" + "b5557486"},
		{"empty", nil, nil, "0000026a36c4" + "d37e7744"},
	}
	for _, c := range cases {
		if got := appendSegment(nil, c.payload, true, c.lz4); hex.EncodeToString(got) != c.want {
			t.Errorf("%s: segment = %x, want %s", c.name, got, c.want)
		}
		h, err := DecodeSegmentHeader(mustHex(t, c.want), c.lz4 != nil)
		if err != nil || !h.SelfContained || h.PayloadLength != len(c.payload) || h.UncompressedLength != 0 {
			t.Errorf("%s: header = %+v, %v", c.name, h, err)
		}
	}
}

// decodeSegments undoes AppendSegments, checking the rule for slices.
func decodeSegments(t *testing.T, b []byte, lz4 bool) []byte {
	t.Helper()
	var out []byte
	for len(b) > 0 {
		h, err := DecodeSegmentHeader(b, lz4)
		if err != nil {
			t.Fatalf("header: %v", err)
		}
		size := SegmentHeaderSize(lz4)
		end := size + h.PayloadLength + SegmentTrailerSize
		before := len(out)
		if out, err = AppendSegmentPayload(out, b[size:end], h); err != nil {
			t.Fatalf("payload: %v", err)
		}
		if h.SelfContained {
			for rest := out[before:]; len(rest) > 0; rest = rest[envelopeSize(rest):] {
				if envelopeSize(rest) > len(rest) {
					t.Fatal("a self-contained segment ends within an envelope")
				}
			}
		}
		b = b[end:]
	}
	return out
}

// envelopes is n envelopes of the given body size, half of each compressible.
func envelopes(n, size int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	var b []byte
	for i := range n {
		b = AppendHeader(b, Header{Version: V5, Stream: int16(i), Opcode: OpQuery, Length: size})
		for j := range size {
			if j%32 < 16 {
				b = append(b, byte(random.Uint32()))
			} else {
				b = append(b, 'x')
			}
		}
	}
	return b
}

func TestSegmentsCarryEveryEnvelope(t *testing.T) {
	for _, lz4 := range []*Compressor{nil, NewCompressor()} {
		for _, c := range []struct{ n, size int }{
			{1, 0}, {1, 10}, {700, 300}, {3, 70_000}, {2, SegmentPayloadMax - HeaderSize},
			{2, SegmentPayloadMax - HeaderSize + 1}, {2, 400_000}, {1, 2 * SegmentPayloadMax},
		} {
			want := envelopes(c.n, c.size)
			wireBytes := AppendSegments(nil, want, lz4)
			if got := decodeSegments(t, wireBytes, lz4 != nil); !bytes.Equal(got, want) {
				t.Errorf("lz4 %v, %d envelopes of %d bytes do not come back", lz4 != nil, c.n, c.size)
			}
			if lz4 != nil && c.size >= 300 && len(wireBytes) >= len(want) {
				t.Errorf("%d bytes became %d with lz4", len(want), len(wireBytes))
			}
		}
	}
}

func TestDamagedSegmentsFail(t *testing.T) {
	for _, lz4 := range []*Compressor{nil, NewCompressor()} {
		good := AppendSegments(nil, envelopes(3, 400), lz4)
		size := SegmentHeaderSize(lz4 != nil)
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 0x10
			h, err := DecodeSegmentHeader(bad, lz4 != nil)
			if i < size {
				if !errors.Is(err, ErrSegmentHeader) {
					t.Fatalf("byte %d flipped: header err = %v", i, err)
				}
				continue
			}
			if _, err = AppendSegmentPayload(nil, bad[size:], h); !errors.Is(err, ErrSegmentPayload) {
				t.Fatalf("byte %d flipped: payload err = %v", i, err)
			}
		}
	}
}

func TestSegmentsDoNotAllocate(t *testing.T) {
	src := envelopes(20, 300)
	dst := make([]byte, 0, 2*len(src))
	compressor := NewCompressor()
	for _, lz4 := range []*Compressor{nil, compressor} {
		dst = AppendSegments(dst[:0], src, lz4)
		if got := testing.AllocsPerRun(50, func() { dst = AppendSegments(dst[:0], src, lz4) }); got != 0 {
			t.Errorf("lz4 %v: %v allocations", lz4 != nil, got)
		}
	}
}

func FuzzSegment(f *testing.F) {
	f.Add(mustHex(f, "090002a4c8c1050000010500000000b5557486"), false)
	f.Add(mustHex(f, "0900000004c2b895050000010500000000b5557486"), true)
	f.Add(AppendSegments(nil, envelopes(2, 900), NewCompressor()), true)
	f.Fuzz(func(t *testing.T, b []byte, lz4 bool) {
		h, err := DecodeSegmentHeader(b, lz4)
		if err != nil {
			return
		}
		rest := b[SegmentHeaderSize(lz4):]
		n := h.PayloadLength + SegmentTrailerSize
		if len(rest) < n {
			return
		}
		out, err := AppendSegmentPayload(nil, rest[:n], h)
		if err == nil && len(out) > SegmentPayloadMax {
			t.Errorf("payload of %d bytes", len(out))
		}
	})
}
