package frame

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
)

var versions = []Version{V3, V4, V5, V6}

// body is a request body, the same way round for all kinds.
type body interface {
	Consume(*wire.Cursor, Version) error
	Append([]byte, Version) []byte
}

// full is parameters with everything version v can carry.
func full(v Version) Params {
	p := Params{
		Consistency:       ring.Quorum,
		SerialConsistency: ring.LocalSerial,
		Values:            []wire.Value{{}, wire.BytesValue([]byte{}), wire.BytesValue([]byte("theo"))},
		SkipMetadata:      true,
		PageSize:          5000,
		PagingState:       []byte{1, 2, 3},
		Timestamp:         -7,
		HasTimestamp:      true,
	}
	if v >= V4 {
		p.Values = append(p.Values, wire.Value{Kind: wire.ValueUnset})
	}
	if v >= V5 {
		p.Keyspace, p.NowInSeconds, p.HasNowInSeconds = "uprofile", -1, true
	}
	return p
}

// requests returns one of each request with much in it, and an empty one to decode into.
func requests(v Version) map[string][2]body {
	named := full(v)
	for range named.Values {
		named.Names = append(named.Names, "name")
	}
	execute := &Execute{ID: []byte("0123456789abcdef"), Params: full(v)}
	prepare := &Prepare{Query: "SELECT * FROM user"}
	if v >= V5 {
		execute.ResultMetadataID = []byte("fedcba9876543210")
		prepare.Keyspace = "uprofile"
	}
	batch := &Batch{Type: BatchUnlogged, Statements: []BatchStatement{
		{Query: "INSERT …", Values: full(v).Values},
		{ID: []byte{1, 2}},
		{ID: []byte{3}, Values: full(v).Values[:1]},
	}, Params: full(v)}
	batch.Params.Values, batch.Params.PageSize, batch.Params.PagingState, batch.Params.SkipMetadata = nil, 0, nil, false
	pairs := map[string][2]body{}
	for level := ring.Any; level <= ring.LocalOne; level++ { // the serial consistency of a request may be any level
		params := Params{Consistency: ring.One, SerialConsistency: level}
		pairs["serial "+level.String()] = [2]body{&Query{Params: params}, &Query{}}
		pairs["batch, serial "+level.String()] = [2]body{&Batch{Params: params}, &Batch{}}
	}
	maps.Copy(pairs, map[string][2]body{
		"query":       {&Query{Query: "SELECT 1", Params: full(v)}, &Query{}},
		"named query": {&Query{Query: "SELECT ?", Params: named}, &Query{}},
		"bare query": {&Query{Query: "", Params: Params{Consistency: ring.One, SerialConsistency: ring.Serial}},
			&Query{}},
		"prepare": {prepare, &Prepare{}},
		"execute": {execute, &Execute{}},
		"batch":   {batch, &Batch{}},
	})
	return pairs
}

func TestRequestsRoundTrip(t *testing.T) {
	for _, v := range versions {
		for name, pair := range requests(v) {
			encoded := pair[0].Append(nil, v)
			c := wire.NewCursor(encoded)
			if err := pair[1].Consume(&c, v); err != nil || c.Finish() != nil {
				t.Errorf("v%d %s: %v, %v", v, name, err, c.Finish())
				continue
			}
			if again := pair[1].Append(nil, v); !bytes.Equal(again, encoded) {
				t.Errorf("v%d %s: % x decodes to\n%+v", v, name, encoded, pair[1])
			}
			for n := range len(encoded) {
				c := wire.NewCursor(encoded[:n])
				if pair[1].Consume(&c, v) == nil {
					t.Errorf("v%d %s: a prefix of %d of %d bytes decodes", v, name, n, len(encoded))
				}
			}
		}
	}
}

// Bytes written by hand from the specification, so that encoder and decoder
// cannot be wrong together.
func TestRequestVectors(t *testing.T) {
	const select1 = "0000000853454c4543542031"
	cases := []struct {
		name string
		v    Version
		hex  string
		into body
		want body
	}{
		{
			"query v4", V4, select1 + "0001" + "34" + "00001388" + "0008" + "0000000000000001",
			&Query{},
			&Query{Query: "SELECT 1", Params: Params{
				Consistency: ring.One, SerialConsistency: ring.Serial, PageSize: 5000, HasTimestamp: true, Timestamp: 1,
			}},
		},
		{
			"query v5", V5, select1 + "0006" + "000001c0" + "00026b73" + "0000000a",
			&Query{},
			&Query{Query: "SELECT 1", Params: Params{
				Consistency: ring.LocalQuorum, SerialConsistency: ring.Serial, Keyspace: "ks", NowInSeconds: 10,
				HasNowInSeconds: true,
			}},
		},
		{
			"execute v4", V4, "0002cafe" + "0004" + "0b" + "0003" + "00000001aa" + "ffffffff" + "fffffffe" +
				"00000002beef",
			&Execute{},
			&Execute{ID: []byte{0xCA, 0xFE}, Params: Params{
				Consistency: ring.Quorum, SerialConsistency: ring.Serial, SkipMetadata: true,
				PagingState: []byte{0xBE, 0xEF},
				Values:      []wire.Value{wire.BytesValue([]byte{0xAA}), {}, wire.Value{Kind: wire.ValueUnset}},
			}},
		},
		{
			"execute v5", V5, "0002cafe" + "00020102" + "0004" + "00000000",
			&Execute{},
			&Execute{ID: []byte{0xCA, 0xFE}, ResultMetadataID: []byte{1, 2}, Params: Params{
				Consistency: ring.Quorum, SerialConsistency: ring.Serial,
			}},
		},
		{
			"prepare v5", V5, select1 + "00000001" + "00026b73",
			&Prepare{}, &Prepare{Query: "SELECT 1", Keyspace: "ks"},
		},
		{
			"batch v4", V4, "01" + "0002" + "00" + select1 + "0000" + "01" + "0001ff" + "0001" + "0000000100" +
				"0001" + "10" + "0009",
			&Batch{},
			&Batch{Type: BatchUnlogged, Statements: []BatchStatement{
				{Query: "SELECT 1"},
				{ID: []byte{0xFF}, Values: []wire.Value{wire.BytesValue([]byte{0})}},
			}, Params: Params{Consistency: ring.One, SerialConsistency: ring.LocalSerial}},
		},
	}
	for _, c := range cases {
		cur := wire.NewCursor(mustHex(t, c.hex))
		if err := c.into.Consume(&cur, c.v); err != nil || cur.Finish() != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if b, ok := c.into.(*Batch); ok {
			b.values = nil
		}
		if !reflect.DeepEqual(c.into, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, c.into, c.want)
		}
	}
}

func TestMeaninglessRequestsAreProtocolErrors(t *testing.T) {
	query := func(mutate func(*Params)) []byte {
		p := Params{Consistency: ring.One, SerialConsistency: ring.Serial}
		mutate(&p)
		return (&Query{Params: p}).Append(nil, V4)
	}
	cases := []struct {
		name string
		v    Version
		into body
		raw  []byte
		want string
	}{
		{"consistency 12", V4, &Query{}, query(func(p *Params) { p.Consistency = 12 }),
			"Unknown code 12 for a consistency level"},
		{"page size 0", V4, &Query{}, mustHex(t, "00000000"+"0001"+"04"+"00000000"), "page size cannot be 0"},
		{
			"timestamp Long.MIN", V4, &Query{}, query(func(p *Params) {
				p.HasTimestamp, p.Timestamp = true,
					math.MinInt64
			}),
			"Out of bound timestamp",
		},
		{
			"unset in v3", V3, &Query{}, query(func(p *Params) {
				p.Values = []wire.Value{{Kind: wire.ValueUnset}}
			}),
			"Invalid ByteBuf length -2",
		},
		{"batch type 3", V4, &Batch{}, mustHex(t, "03"+"0000"+"0001"+"00"), "Invalid BATCH message type 3"},
		{"batch kind 2", V4, &Batch{}, mustHex(t, "00"+"0001"+"02"+"0000"+"0000"+"0001"+"00"),
			"Invalid query kind in BATCH messages"},
	}
	for _, c := range cases {
		cur := wire.NewCursor(c.raw)
		err := c.into.Consume(&cur, c.v)
		var protocol *ProtocolError
		if !errors.As(err, &protocol) || !strings.Contains(protocol.Message, c.want) {
			t.Errorf("%s: err = %v, want a protocol error with %q", c.name, err, c.want)
		}
	}
}

// A reused request must not show anything of the one before.
func TestConsumeForgetsThePreviousRequest(t *testing.T) {
	for _, v := range versions {
		reused := &Execute{}
		for _, e := range []*Execute{{ID: []byte{1}, Params: full(v)},
			{ID: []byte{2}, Params: Params{SerialConsistency: ring.Serial}}} {
			if v >= V5 {
				e.ResultMetadataID = []byte{9}
			}
			want := e.Append(nil, v)
			c := wire.NewCursor(want)
			if err := reused.Consume(&c, v); err != nil {
				t.Fatal(err)
			}
			if got := reused.Append(nil, v); !bytes.Equal(got, want) {
				t.Errorf("v%d: got %s, want %s", v, hex.EncodeToString(got), hex.EncodeToString(want))
			}
		}
	}
}

func TestDecodingRequestsDoesNotAllocate(t *testing.T) {
	for _, v := range versions {
		encoded := (&Execute{ID: make([]byte, 16), ResultMetadataID: make([]byte, 16), Params: full(v)}).Append(nil, v)
		if v >= V5 { // the keyspace is the one string that is copied
			p := full(v)
			p.Keyspace = ""
			encoded = (&Execute{ID: make([]byte, 16), ResultMetadataID: make([]byte, 16), Params: p}).Append(nil, v)
		}
		var e Execute
		if got := testing.AllocsPerRun(100, func() {
			c := wire.NewCursor(encoded)
			if err := e.Consume(&c, v); err != nil {
				panic(err)
			}
		}); got != 0 {
			t.Errorf("v%d: decoding EXECUTE allocates %v times", v, got)
		}
	}
}

// A body of a few bytes that announces 65535 values must not make room for them.
func TestDeclaredCountsAreNotTrusted(t *testing.T) {
	bodies := map[string]struct {
		raw  string
		into body
	}{
		"query values":     {"00000000" + "0001" + "01" + "ffff" + "00", &Query{}},
		"named values":     {"00000000" + "0001" + "41" + "ffff" + "00", &Query{}},
		"batch statements": {"00" + "ffff" + "00", &Batch{}},
	}
	for name, b := range bodies {
		raw := mustHex(t, b.raw)
		var c wire.Cursor
		if got := testing.AllocsPerRun(10, func() {
			c = wire.NewCursor(raw)
			if b.into.Consume(&c, V4) == nil {
				panic("decodes")
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func fuzzRequest(f *testing.F, kind string, fresh func() body) {
	for _, v := range versions {
		for name, pair := range requests(v) {
			if strings.Contains(name, kind) {
				f.Add(pair[0].Append(nil, v), uint8(v))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, version uint8) {
		v := V3 + Version(version%3)
		first := fresh()
		c := wire.NewCursor(data)
		if first.Consume(&c, v) != nil {
			return
		}
		encoded := first.Append(nil, v)
		second := fresh()
		c = wire.NewCursor(encoded)
		if err := second.Consume(&c, v); err != nil || c.Finish() != nil {
			t.Fatalf("v%d: the encoding of a decoded request does not decode: %v", v, err)
		}
		if again := second.Append(nil, v); !bytes.Equal(again, encoded) {
			t.Fatalf("v%d: not stable:\n% x\n% x", v, encoded, again)
		}
	})
}

func FuzzQuery(f *testing.F)   { fuzzRequest(f, "query", func() body { return &Query{} }) }
func FuzzPrepare(f *testing.F) { fuzzRequest(f, "prepare", func() body { return &Prepare{} }) }
func FuzzExecute(f *testing.F) { fuzzRequest(f, "execute", func() body { return &Execute{} }) }
func FuzzBatch(f *testing.F)   { fuzzRequest(f, "batch", func() body { return &Batch{} }) }

func FuzzHandshake(f *testing.F) {
	f.Add(AppendStringMap(nil, []StringPair{{"CQL_VERSION", "3.0.0"}, {"COMPRESSION", "lz4"}}))
	f.Add(AppendRegister(nil, AboutNodes|GracefulDisconnect))
	f.Add(AppendSupported(nil, []SupportedOption{{"COMPRESSION", []string{"lz4", "snappy"}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := wire.NewCursor(data)
		if pairs := ConsumeStringMap(&c); c.Err() == nil {
			if got := AppendStringMap(nil, pairs); !bytes.HasPrefix(data, got) {
				t.Errorf("string map % x was encoded again as % x", data, got)
			}
		}
		c = wire.NewCursor(data)
		if options := ConsumeSupported(&c); c.Err() == nil {
			if got := AppendSupported(nil, options); !bytes.HasPrefix(data, got) {
				t.Errorf("string multimap % x was encoded again as % x", data, got)
			}
		}
		c = wire.NewCursor(data)
		ConsumeRegister(&c)
	})
}

func BenchmarkDecodeExecute(b *testing.B) {
	values := make([]wire.Value, 7)
	for i := range values {
		values[i] = wire.BytesValue([]byte("some value of a row"))
	}
	encoded := (&Execute{ID: make([]byte, 16), Params: Params{Consistency: ring.Quorum, Values: values}}).Append(nil,
		V4)
	var e Execute
	b.ReportAllocs()
	for b.Loop() {
		c := wire.NewCursor(encoded)
		if err := e.Consume(&c, V4); err != nil {
			b.Fatal(err)
		}
	}
}
