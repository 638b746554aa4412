package frame

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"cqld/internal/wire"
)

func TestHeaderRoundTrip(t *testing.T) {
	for _, v := range versions {
		for _, h := range []Header{
			{Version: v, Opcode: OpOptions},
			{Version: v, Response: true, Flags: FlagTracing | FlagWarnings, Stream: -1, Opcode: OpEvent, Length: 12},
			{Version: v, Stream: 32767, Opcode: OpExecute, Length: 1<<31 - 1},
		} {
			got, err := DecodeHeader(AppendHeader(nil, h))
			if v == V6 {
				h.Flags |= FlagBeta
			}
			if err != nil || got != h {
				t.Errorf("%+v was decoded as %+v, %v", h, got, err)
			}
		}
	}
}

func TestMalformedHeaders(t *testing.T) {
	var unsupported *UnsupportedVersion
	for _, first := range []byte{0, 1, 2, 7, 0x41, 0x42, 0x7F, 0xC1} {
		_, err := DecodeHeader([]byte{first})
		if !errors.As(err, &unsupported) || unsupported.Version != first&0x7F {
			t.Errorf("version byte %#x: %v", first, err)
		}
	}
	if _, err := DecodeHeader(mustHex(t, "04000001050000")); !errors.Is(err, wire.ErrShort) {
		t.Errorf("short header: %v", err)
	}
	var protocol *ProtocolError
	if _, err := DecodeHeader(mustHex(t, "0400000105ffffffff")); !errors.As(err, &protocol) {
		t.Errorf("negative length: %v", err)
	}
}

// Drivers search for this text, and fall back to the version in the header.
func TestUnsupportedVersionAnswer(t *testing.T) {
	const text = "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)"
	answer := AppendUnsupportedVersion(nil, &UnsupportedVersion{Version: 66}, 7)
	h, err := DecodeHeader(answer)
	if err != nil || h != (Header{Version: V5, Response: true, Stream: 7, Opcode: OpError,
		Length: len(answer) - HeaderSize}) {
		t.Errorf("header %+v, %v", h, err)
	}
	c := wire.NewCursor(answer[HeaderSize:])
	if e := ConsumeError(&c, V5); c.Finish() != nil || e.Code != CodeProtocolError || e.Message != text {
		t.Errorf("error %+v", e)
	}
	legacy := AppendUnsupportedVersion(nil, &UnsupportedVersion{Version: 2}, 7)
	if got := hex.EncodeToString(legacy[:4]); got != "82000700" || int(legacy[7]) != len(legacy)-LegacyHeaderSize {
		t.Errorf("answer to v2 begins % x", legacy[:LegacyHeaderSize])
	}
}

// TestBetaVersion compares the refusal of v6 without FlagBeta with Cassandra 5.0.9's, byte for byte.
func TestBetaVersion(t *testing.T) {
	const want = "8610000100000000" + "4f" + "0000000a" + "0049" +
		"426574612076657273696f6e206f66207468652070726f746f636f6c20757365642028362f76362d62657461292c20" +
		"62757420555345" + "5f4245544120666c616720697320756e736574"
	h, err := DecodeHeader([]byte{6, 0, 0, 1, byte(OpOptions), 0, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	message := h.CheckBeta().Error()
	got := AppendHeader(nil, Header{Version: V6, Response: true, Stream: 1, Opcode: OpError})
	got = wire.AppendString(wire.AppendInt32(got, int32(CodeProtocolError)), message)
	if FinishEnvelope(got, 0); hex.EncodeToString(got) != want {
		t.Errorf("answer %x, want %s", got, want)
	}
	for _, h := range []Header{{Version: V6, Flags: FlagBeta | FlagTracing}, {Version: V5},
		{Version: V4, Flags: FlagBeta}} {
		if err := h.CheckBeta(); err != nil {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

func TestPrefixRoundTrip(t *testing.T) {
	want := Prefix{
		TracingID:     [16]byte{1, 2, 3},
		Warnings:      []string{"batch too large", ""},
		CustomPayload: map[string][]byte{"a": {1}, "b": nil, "c": {}},
	}
	all := FlagTracing | FlagWarnings | FlagCustomPayload
	encoded := AppendPrefix(nil, all, want)
	c := wire.NewCursor(encoded)
	if got := ConsumeResponsePrefix(&c, all); c.Finish() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !bytes.Equal(encoded[:16], want.TracingID[:]) {
		t.Error("the tracing id is not first")
	}
	c = wire.NewCursor([]byte{0, 0})
	if ConsumeRequestPrefix(&c, V3, FlagCustomPayload); c.Err() == nil {
		t.Error("v3 accepts a custom payload")
	}
}

func TestBodyCompressionRoundTrip(t *testing.T) {
	compressor := NewCompressor()
	text := strings.Repeat("a row of a table; ", 100)
	for _, algorithm := range []Compression{LZ4, Snappy} {
		dst := []byte("earlier bytes of the buffer")
		start := len(dst)
		dst = AppendHeader(dst, Header{Version: V4, Response: true, Opcode: OpResult})
		dst = append(dst, text...)
		FinishEnvelope(dst, start)
		dst = compressor.CompressBody(dst, start, algorithm)
		h, err := DecodeHeader(dst[start:])
		if err != nil || h.Flags != FlagCompressed || h.Length != len(dst)-start-HeaderSize || h.Length >= len(text) {
			t.Fatalf("%v: header %+v, %v", algorithm, h, err)
		}
		body, err := DecompressBody(dst[start+HeaderSize:], algorithm, 1<<20)
		if err != nil || string(body) != text {
			t.Errorf("%v: %d bytes come back as %d, %v", algorithm, len(text), len(body), err)
		}
		if _, err := DecompressBody(dst[start+HeaderSize:], algorithm, len(text)-1); err == nil {
			t.Errorf("%v: a body beyond the maximum is accepted", algorithm)
		}
	}
}

func TestIncompressibleBodiesAreSentAsTheyAre(t *testing.T) {
	compressor := NewCompressor()
	for _, algorithm := range []Compression{LZ4, Snappy, NoCompression} {
		want := make([]byte, 0, 1000)
		want = AppendHeader(want, Header{Version: V4, Opcode: OpResult, Length: 600})
		for i := range 600 {
			want = append(want, byte(i*i*7+i>>3))
		}
		got := compressor.CompressBody(bytes.Clone(want), 0, algorithm)
		h, _ := DecodeHeader(got)
		if h.Flags == 0 && !bytes.Equal(got, want) {
			t.Errorf("%v: an uncompressed envelope was changed", algorithm)
		}
		if len(got) > len(want) {
			t.Errorf("%v: %d bytes became %d", algorithm, len(want), len(got))
		}
	}
}

// A compressed body of a few bytes must not make the server allocate the size that it claims.
func TestDecompressionBombsAreRefused(t *testing.T) {
	bombs := map[string]struct {
		algorithm Compression
		body      []byte
	}{
		"lz4 claims 15 MiB in 8 bytes": {LZ4, mustHex(t, "00f0000000000000")},
		"lz4 claims 4 GiB":             {LZ4, mustHex(t, "ffffffff00000000")},
		"snappy claims 15 MiB":         {Snappy, mustHex(t, "808080070000")},
		"lz4 too short":                {LZ4, mustHex(t, "0000")},
		"lz4 garbage":                  {LZ4, mustHex(t, "00000010ffffffffff")},
		"not negotiated":               {NoCompression, []byte{1}},
	}
	for name, bomb := range bombs {
		if got, err := DecompressBody(bomb.body, bomb.algorithm, 16<<20); err == nil {
			t.Errorf("%s: accepted, %d bytes", name, len(got))
		}
	}
	empty, err := DecompressBody(mustHex(t, "0000000000"), LZ4, 1)
	if err != nil || len(empty) != 0 {
		t.Errorf("an empty lz4 body: % x, %v", empty, err)
	}
}

func TestParseCompression(t *testing.T) {
	for _, c := range []struct {
		name string
		v    Version
		want Compression
		ok   bool
	}{
		{"lz4", V5, LZ4, true}, {"LZ4", V3, LZ4, true}, {"snappy", V4, Snappy, true},
		{"", V4, NoCompression, true}, {"snappy", V5, 0, false}, {"zstd", V4, 0, false},
	} {
		if got, err := ParseCompression(c.name, c.v); got != c.want || (err == nil) != c.ok {
			t.Errorf("%q in v%d: %v, %v", c.name, c.v, got, err)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add(mustHex(f, "050000010500000000"))
	f.Add(mustHex(f, "010001050000000000"))
	f.Add(AppendUnsupportedVersion(nil, &UnsupportedVersion{Version: 66}, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHeader(b)
		if err != nil {
			return
		}
		if got := AppendHeader(nil, h); !bytes.Equal(got, b[:HeaderSize]) {
			t.Errorf("% x was encoded again as % x", b[:HeaderSize], got)
		}
	})
}

func FuzzDecompressBody(f *testing.F) {
	compressor := NewCompressor()
	for _, a := range []Compression{LZ4, Snappy} {
		e := AppendHeader(nil, Header{Version: V4})
		e = append(e, strings.Repeat("seed ", 200)...)
		FinishEnvelope(e, 0)
		f.Add(compressor.CompressBody(e, 0, a)[HeaderSize:], uint8(a))
	}
	f.Fuzz(func(t *testing.T, b []byte, algorithm uint8) {
		const sizeMax = 1 << 20
		out, err := DecompressBody(b, Compression(algorithm%3), sizeMax)
		if err == nil && len(out) > sizeMax {
			t.Errorf("%d bytes", len(out))
		}
	})
}
