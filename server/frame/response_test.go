package frame

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/types"
)

func TestErrorBodiesRoundTrip(t *testing.T) {
	counts := Error{Message: "m", Consistency: ring.Quorum, Required: 3, Received: 2}
	with := func(code ErrorCode, more func(*Error)) Error {
		e := counts
		e.Code = code
		more(&e)
		return e
	}
	replicas := []Failure{{netip.MustParseAddr("127.0.0.1"), 1}, {netip.MustParseAddr("::2"), 0}}
	for _, want := range []Error{
		{Code: CodeServerError, Message: "boom"},
		with(CodeUnavailable, func(*Error) {}),
		with(CodeWriteTimeout, func(e *Error) { e.WriteType = "SIMPLE" }),
		with(CodeWriteTimeout, func(e *Error) { e.WriteType, e.Contentions = WriteTypeCAS, 5 }),
		with(CodeReadTimeout, func(e *Error) { e.DataPresent = true }),
		with(CodeReadFailure, func(e *Error) { e.Failures = replicas }),
		with(CodeWriteFailure, func(e *Error) { e.Failures, e.WriteType = replicas, "BATCH" }),
		with(CodeCASWriteUnknown, func(*Error) {}),
		{Code: CodeFunctionFailure, Message: "m", Keyspace: "ks", Name: "f", ArgTypes: []string{"int"}},
		{Code: CodeAlreadyExists, Message: "m", Keyspace: "ks", Name: ""},
		{Code: CodeUnprepared, Message: "m", ID: []byte{1, 2}},
	} {
		c := wire.NewCursor(AppendError(nil, V5, &want))
		if got := ConsumeError(&c, V5); c.Finish() != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v (%v)\nwant %+v", *got, c.Err(), want)
		}
	}
}

func TestErrorBodyVectors(t *testing.T) {
	base := Error{Message: "m", Consistency: ring.Quorum, Required: 3, Received: 2}
	failures := []Failure{{netip.MustParseAddr("127.0.0.2"), 1}}
	cases := []struct {
		name string
		v    Version
		set  func(*Error)
		want string
	}{
		{"unavailable", V4, func(e *Error) { e.Code = CodeUnavailable }, "00001000" + "00016d" + "0004" + "00000003" +
			"00000002"},
		{
			"write timeout", V4, func(e *Error) { e.Code, e.WriteType = CodeWriteTimeout, "SIMPLE" },
			"00001100" + "00016d" + "0004" + "00000002" + "00000003" + "0006" + hex.EncodeToString([]byte("SIMPLE")),
		},
		{
			"CAS timeout v4", V4, func(e *Error) { e.Code, e.WriteType, e.Contentions = CodeWriteTimeout, "CAS", 2 },
			"00001100" + "00016d" + "0004" + "00000002" + "00000003" + "0003434153",
		},
		{
			"CAS timeout v5", V5, func(e *Error) { e.Code, e.WriteType, e.Contentions = CodeWriteTimeout, "CAS", 2 },
			"00001100" + "00016d" + "0004" + "00000002" + "00000003" + "0003434153" + "0002",
		},
		{
			"CAS unknown v4 is a write timeout", V4, func(e *Error) { e.Code = CodeCASWriteUnknown },
			"00001100" + "00016d" + "0004" + "00000002" + "00000003" + "0003434153",
		},
		{
			"read failure v3 is a timeout", V3, func(e *Error) {
				e.Code, e.Failures, e.DataPresent = CodeReadFailure,
					failures, true
			},
			"00001200" + "00016d" + "0004" + "00000002" + "00000003" + "01",
		},
		{
			"read failure v4", V4, func(e *Error) { e.Code, e.Failures = CodeReadFailure, failures },
			"00001300" + "00016d" + "0004" + "00000002" + "00000003" + "00000001" + "00",
		},
		{
			"read failure v5", V5, func(e *Error) { e.Code, e.Failures = CodeReadFailure, failures },
			"00001300" + "00016d" + "0004" + "00000002" + "00000003" + "00000001" + "047f000002" + "0001" + "00",
		},
		{"CDC failure v3 is invalid", V3, func(e *Error) { e.Code = CodeCDCWriteFailure }, "00002200" + "00016d"},
		{"unprepared", V4, func(e *Error) { e.Code, e.ID = CodeUnprepared, []byte{0xCA, 0xFE} }, "00002500" +
			"00016d" + "0002cafe"},
	}
	for _, c := range cases {
		e := base
		c.set(&e)
		if got := hex.EncodeToString(AppendError(nil, c.v, &e)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func columns() []Column {
	udt := types.NewUDT("ks", "address", []string{"street", "zip"},
		[]*types.Type{types.Native(types.Text), types.Native(types.Int)}, false)
	list := []*types.Type{
		types.Native(types.Text), types.Native(types.Int), types.Native(types.UUID),
		types.NewList(types.Native(types.Date), false),
		types.NewMap(types.Native(types.Text), types.NewSet(types.Native(types.Smallint), false), false),
		types.NewTuple(types.Native(types.Time), udt), udt, types.Native(types.Tinyint),
	}
	var cols []Column
	for _, typ := range list {
		cols = append(cols, Column{Keyspace: "ks", Table: "user", Name: "c", Type: typ})
	}
	return cols
}

func TestMetadataRoundTrip(t *testing.T) {
	mixed := columns()
	mixed[3].Table = "other"
	for name, want := range map[string]RowsMetadata{
		"global":    {Columns: columns()},
		"two":       {Columns: mixed},
		"paged":     {Columns: columns(), PagingState: []byte{1, 2}},
		"changed":   {Columns: columns(), PagingState: []byte{1}, NewMetadataID: []byte{3, 4}},
		"no column": {},
	} {
		c := wire.NewCursor(AppendRowsMetadata(nil, V5, &want))
		got, n := ConsumeRowsMetadata(&c)
		if c.Finish() != nil || n != len(want.Columns) {
			t.Errorf("%s: %d columns, %v", name, n, c.Err())
			continue
		}
		for i := range want.Columns {
			if !got.Columns[i].Type.Equal(want.Columns[i].Type) {
				t.Errorf("%s: column %d is %v, want %v", name, i, got.Columns[i].Type, want.Columns[i].Type)
			}
			got.Columns[i].Type = want.Columns[i].Type
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestMetadataVectors(t *testing.T) {
	col := []Column{{Keyspace: "k", Table: "t", Name: "c", Type: types.Native(types.Text)}}
	cases := []struct {
		name string
		v    Version
		m    RowsMetadata
		want string
	}{
		{"global", V4, RowsMetadata{Columns: col}, "00000001" + "00000001" + "00016b" + "000174" + "000163" + "000d"},
		{"skipped", V4, RowsMetadata{Columns: col, NoMetadata: true}, "00000004" + "00000001"},
		{
			"skipped, more pages", V4, RowsMetadata{Columns: col, NoMetadata: true, PagingState: []byte{9}},
			"00000006" + "00000001" + "0000000109",
		},
		{
			"changed wins over skipped", V5, RowsMetadata{Columns: col, NoMetadata: true, NewMetadataID: []byte{7},
				PagingState: []byte{9}},
			"0000000b" + "00000001" + "0000000109" + "000107" + "00016b" + "000174" + "000163" + "000d",
		},
		{
			"v4 has no metadata id", V4, RowsMetadata{Columns: col, NoMetadata: true, NewMetadataID: []byte{7}},
			"00000004" + "00000001",
		},
	}
	for _, c := range cases {
		if got := hex.EncodeToString(AppendRowsMetadata(nil, c.v, &c.m)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestPreparedVectors(t *testing.T) {
	p := Prepared{
		ID: []byte{0xAA}, ResultMetadataID: []byte{0xBB}, PartitionKey: []uint16{0},
		Binds: []Column{{Keyspace: "k", Table: "t", Name: "c", Type: types.Native(types.Int)}},
	}
	const bind = "00016b" + "000174" + "000163" + "0009"
	const noResult = "00000004" + "00000000"
	for v, want := range map[Version]string{
		V3: "0001aa" + "00000001" + "00000001" + bind + noResult,
		V4: "0001aa" + "00000001" + "00000001" + "00000001" + "0000" + bind + noResult,
		V5: "0001aa" + "0001bb" + "00000001" + "00000001" + "00000001" + "0000" + bind + noResult,
	} {
		if got := hex.EncodeToString(AppendPrepared(nil, v, &p)); got != want {
			t.Errorf("v%d:\n got %s\nwant %s", v, got, want)
		}
	}
}

func TestTypeOptions(t *testing.T) {
	custom := func(class string) string {
		return hex.EncodeToString(wire.AppendString([]byte{0, 0}, "org.apache.cassandra.db.marshal."+class))
	}
	cases := []struct {
		v    Version
		typ  *types.Type
		want string
	}{
		{V3, types.Native(types.Text), "000d"},
		{V3, types.Native(types.Date), custom("SimpleDateType")},
		{V4, types.Native(types.Date), "0011"},
		{V3, types.Native(types.Tinyint), custom("ByteType")},
		{V4, types.Native(types.Duration), custom("DurationType")},
		{V5, types.Native(types.Duration), "0015"},
		{V5, types.NewVector(types.Native(types.Float), 3),
			custom("VectorType(org.apache.cassandra.db.marshal.FloatType , 3)")},
		{V4, types.NewMap(types.Native(types.Text), types.NewList(types.Native(types.Int), true), false), "0021" +
			"000d" + "0020" + "0009"},
		{V4, types.NewTuple(types.Native(types.Int), types.Native(types.Blob)), "0031" + "0002" + "0009" + "0003"},
		{
			V4, types.NewUDT("k", "u", []string{"f"}, []*types.Type{types.NewSet(types.Native(types.Inet), true)},
				true),
			"0030" + "00016b" + "000175" + "0001" + "000166" + "0022" + "0010",
		},
		{V4, types.NewCustom("com.acme.Odd"), hex.EncodeToString(wire.AppendString([]byte{0, 0}, "com.acme.Odd"))},
	}
	for _, c := range cases {
		if got := hex.EncodeToString(AppendType(nil, c.v, c.typ)); got != c.want {
			t.Errorf("v%d %v:\n got %s\nwant %s", c.v, c.typ, got, c.want)
		}
	}
}

// Every native type has a distinct id in v5, and is decoded to itself.
func TestEveryScalarTypeRoundTrips(t *testing.T) {
	seen := map[string]types.Kind{}
	for k := types.Ascii; k <= types.Varint; k++ {
		encoded := AppendType(nil, V5, types.Native(k))
		if other, ok := seen[string(encoded)]; ok || len(encoded) != 2 {
			t.Errorf("kind %d: option % x (also kind %d)", k, encoded, other)
		}
		seen[string(encoded)] = k
		c := wire.NewCursor(encoded)
		if got := ConsumeType(&c); got == nil || got.Kind() != k {
			t.Errorf("kind %d was decoded as %v", k, got)
		}
	}
}

func TestEventVectors(t *testing.T) {
	node := netip.MustParseAddrPort("127.0.0.1:9042")
	function := &SchemaChange{Change: ChangeDropped, Target: TargetFunction, Keyspace: "ks", Name: "f",
		ArgTypes: []string{"int"}}
	text := func(s string) string { return hex.EncodeToString(wire.AppendString(nil, s)) }
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"status": {AppendStatusEvent(nil, NodeUp, node), text("STATUS_CHANGE") + text("UP") + "047f000001" +
			"00002352"},
		"graceful": {AppendGracefulDisconnect(nil), text("GRACEFUL_DISCONNECT")},
		"topology": {AppendTopologyEvent(nil, NodeNew, node), text("TOPOLOGY_CHANGE") + text("NEW_NODE") +
			"047f000001" + "00002352"},
		"keyspace": {
			AppendSchemaEvent(nil, V4, &SchemaChange{Change: ChangeCreated, Target: TargetKeyspace, Keyspace: "ks"}),
			text("SCHEMA_CHANGE") + text("CREATED") + text("KEYSPACE") + text("ks"),
		},
		"table": {
			AppendSchemaEvent(nil, V4, &SchemaChange{Change: ChangeUpdated, Target: TargetTable, Keyspace: "ks",
				Name: "t"}),
			text("SCHEMA_CHANGE") + text("UPDATED") + text("TABLE") + text("ks") + text("t"),
		},
		"function v4": {
			AppendSchemaEvent(nil, V4, function),
			text("SCHEMA_CHANGE") + text("DROPPED") + text("FUNCTION") + text("ks") + text("f") + "0001" + text("int"),
		},
		"function v3": {AppendSchemaEvent(nil, V3, function), text("SCHEMA_CHANGE") + text("UPDATED") +
			text("KEYSPACE") + text("ks")},
	} {
		if hex.EncodeToString(c.got) != c.want {
			t.Errorf("%s: %x, want %s", name, c.got, c.want)
		}
		cur := wire.NewCursor(c.got)
		if ConsumeEvent(&cur); cur.Finish() != nil {
			t.Errorf("%s does not decode: %v", name, cur.Err())
		}
	}
}

func rowsBody(dst []byte, m *RowsMetadata, rows []byte) []byte {
	return AppendRowsResult(dst, V4, m, 100, rows)
}

func hundredRows() (m *RowsMetadata, rows []byte) {
	m = &RowsMetadata{Columns: columns()}
	for range 100 * len(m.Columns) {
		rows = wire.AppendBytes(rows, []byte("a cell of the row"))
	}
	return m, rows
}

func TestResultsRoundTrip(t *testing.T) {
	m, rows := hundredRows()
	c := wire.NewCursor(rowsBody(nil, m, rows))
	r := ConsumeResult(&c, V4)
	if c.Finish() != nil || r.Kind != KindRows || r.RowCount != 100 || !bytes.Equal(r.Rows, rows) {
		t.Errorf("rows: kind %d, %d rows, %v", r.Kind, r.RowCount, c.Err())
	}
	c = wire.NewCursor(AppendSetKeyspaceResult(nil, "uprofile"))
	if r := ConsumeResult(&c, V4); c.Finish() != nil || r.Keyspace != "uprofile" {
		t.Errorf("set keyspace: %+v", r)
	}
	c = wire.NewCursor(AppendVoidResult(nil))
	if r := ConsumeResult(&c, V4); c.Finish() != nil || r.Kind != KindVoid {
		t.Errorf("void: %+v", r)
	}
	change := SchemaChange{Change: ChangeCreated, Target: TargetTable, Keyspace: "ks", Name: "t"}
	c = wire.NewCursor(AppendSchemaChangeResult(nil, V4, &change))
	if r := ConsumeResult(&c, V4); c.Finish() != nil || !reflect.DeepEqual(r.Schema, change) {
		t.Errorf("schema change: %+v", r)
	}
}

func TestAppendingRowsDoesNotAllocate(t *testing.T) {
	m, rows := hundredRows()
	dst := rowsBody(nil, m, rows)
	if got := testing.AllocsPerRun(100, func() { dst = rowsBody(dst[:0], m, rows) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func FuzzResponse(f *testing.F) {
	m, rows := hundredRows()
	f.Add(rowsBody(nil, m, rows))
	f.Add(AppendPreparedResult(nil, V5, &Prepared{ID: []byte{1}, Binds: columns(), Result: columns()}))
	f.Add(AppendError(nil, V5, &Error{Code: CodeUnprepared, ID: []byte{1}}))
	f.Add(AppendSchemaEvent(nil, V5, &SchemaChange{Change: ChangeCreated, Target: TargetTable}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range versions {
			c := wire.NewCursor(data)
			if r := ConsumeResult(&c, v); c.Err() == nil && len(r.Rows) > len(data) {
				t.Error("more rows than input")
			}
			c = wire.NewCursor(data)
			ConsumeError(&c, v)
			c = wire.NewCursor(data)
			ConsumeEvent(&c)
		}
	})
}

func BenchmarkAppendRows(b *testing.B) {
	m, rows := hundredRows()
	dst := rowsBody(nil, m, rows)
	b.ReportAllocs()
	for b.Loop() {
		dst = rowsBody(dst[:0], m, rows)
	}
}
