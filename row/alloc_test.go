package row

import (
	"testing"

	"cqld/internal/wire"
	"cqld/schema"
)

// hotRow returns a row of five values, as a benchmark's table has.
func hotRow() *Row {
	r := NewRow()
	r.Clustering = []byte{0x80, 0, 0, 1}
	r.Liveness.Timestamp = 1
	for c := range schema.ColumnID(5) {
		r.Cells = append(r.Cells, Cell{Column: c, Timestamp: 1, Value: make([]byte, 36)})
	}
	return r
}

// TestHotPathsDoNotAllocate holds once their buffers have grown.
func TestHotPathsDoNotAllocate(t *testing.T) {
	r, sum, decoded := hotRow(), NewRow(), NewRow()
	b := encoded(r)
	var m, consumed Mutation
	key := NewPartitionKey([]byte("key"))
	m.Reset(1024, key)
	m.AddRow(r)
	mutation := AppendMutation(nil, &m)
	cmd := &ReadCommand{Table: 1024, Key: key, Slices: []Slice{ExactRow(r.Clustering)}}
	command := AppendReadCommand(nil, cmd)
	got := new(ReadCommand)
	buffer := make([]byte, 0, 4096)
	page := pageOf(&Partition{Key: key, Header: *NewRow(), Rows: []Row{*r, *r, *r}})
	var reader PageReader
	for name, f := range map[string]func(){
		"AppendRow":          func() { AppendRow(buffer, r) },
		"DecodeRow":          func() { _ = DecodeRow(decoded, b) },
		"Summarize":          func() { _, _ = Summarize(b, 1) },
		"Reconcile":          func() { Reconcile(sum, r, decoded) },
		"Mutation.AddRow":    func() { m.Reset(1024, key); m.AddRow(r) },
		"AppendMutation":     func() { AppendMutation(buffer, &m) },
		"ConsumeMutation":    func() { c := wire.NewCursor(mutation); ConsumeMutation(&c, &consumed) },
		"AppendReadCommand":  func() { AppendReadCommand(buffer, cmd) },
		"ConsumeReadCommand": func() { c := wire.NewCursor(command); ConsumeReadCommand(&c, got) },
		"PageWriter": func() {
			w := NewPageWriter(buffer)
			w.Partition(key, sum, nil)
			w.Row(r)
			w.EndPartition()
			w.Finish(false)
		},
		"PageReader": func() {
			reader.Reset(page)
			for reader.NextPartition() {
				for reader.NextRow(decoded) {
				}
			}
		},
		"DigestOf": func() { DigestOf(page) },
	} {
		f()
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkAppendRow(b *testing.B) {
	r := hotRow()
	buffer := make([]byte, 0, 4096)
	for b.Loop() {
		AppendRow(buffer, r)
	}
}

func BenchmarkDecodeRow(b *testing.B) {
	bytes, r := encoded(hotRow()), NewRow()
	for b.Loop() {
		_ = DecodeRow(r, bytes)
	}
}

func BenchmarkSummarize(b *testing.B) {
	bytes := encoded(hotRow())
	for b.Loop() {
		_, _ = Summarize(bytes, 1)
	}
}

func BenchmarkTimestampMax(b *testing.B) {
	bytes := encoded(hotRow())
	for b.Loop() {
		_, _ = TimestampMax(bytes)
	}
}

func BenchmarkReconcile(b *testing.B) {
	x, y, sum := hotRow(), hotRow(), NewRow()
	y.Cells[2].Timestamp = 2
	for b.Loop() {
		Reconcile(sum, x, y)
	}
}
