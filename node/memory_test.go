package node

import (
	"fmt"
	"strings"
	"testing"

	"cqld/internal/memory"
	"cqld/node/config"
)

// The parts of a node's memory add up to the memory that its process has from the operating system, and to the kernel's
// count.
func TestMemoryAddsUp(t *testing.T) {
	r := openNodes(t, 87, 1, nil)
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE k.t (k int PRIMARY KEY, v text)")
	for i := range 200 {
		r.query(c, fmt.Sprintf("INSERT INTO k.t (k, v) VALUES (%d, '%s')", i, strings.Repeat("x", 10_000)))
	}
	m := r.nodes[0].metrics.MemoryUse()
	if len(m.Parts) != int(memory.Parts) || m.Limit == 0 || m.Source == "" {
		t.Fatalf("%+v", m)
	}
	bounds, uses := int64(0), int64(0)
	for _, p := range m.Parts {
		bounds, uses = bounds+p.Bound, uses+p.Used
		if p.Bound <= 0 || p.Used < 0 {
			t.Errorf("%+v", p)
		}
	}
	if bounds > m.Limit {
		t.Errorf("the bounds of all parts are %d of %d", bounds, m.Limit)
	}
	if part := m.Parts[memory.MemTables]; part.Used < 1<<20 {
		t.Errorf("memtables with 2 MB: %+v", part)
	}
	if kernel := m.Parts[memory.Kernel].Used; uses != m.Sum || m.Sum-kernel < m.Heap.Total() {
		t.Errorf("the parts have %d bytes (%d for files), and the heap has %d", uses, kernel, m.Heap.Total())
	}
	// In a test process, the runtime has unused pages, and the race detector has its own memory.
	if m.Resident > 0 && (m.Sum < m.Resident/3 || m.Sum > m.Resident*3) {
		t.Errorf("the parts have %d MiB, and the kernel counts %d MiB", m.Sum>>20, m.Resident>>20)
	}
}

// A node refuses to start with too little memory.
func TestMemoryIsRefused(t *testing.T) {
	for want, set := range map[string]func(o *config.Options){
		"a node needs at least 256 MiB": func(o *config.Options) { o.Memory.Limit = 100 << 20 },
		"block_cache_size 900 MiB; the other parts": func(o *config.Options) {
			o.Memory.Limit, o.Memory.CacheBytes = 1<<30,
				900<<20
		},
	} {
		o := config.Default()
		o.DataDir = t.TempDir()
		set(&o)
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
