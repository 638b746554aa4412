package schema

// Options are a table's options with Cassandra's names (CREATE TABLE … WITH). Every one is stored
// and shown; docs/limits.md says which have an effect.
type Options struct {
	AdditionalWritePolicy string
	AllowAutoSnapshot     bool
	BloomFilterFPChance   float64
	Caching               map[string]string
	CDC                   bool
	Comment               string
	Compaction            map[string]string
	Compression           map[string]string
	Memtable              string
	CRCCheckChance        float64
	DefaultTTL            int32 // seconds
	Extensions            map[string][]byte
	GCGraceSeconds        int32
	IncrementalBackups    bool
	MaxIndexInterval      int32
	MemtableFlushPeriodMs int32
	MinIndexInterval      int32
	ReadRepair            string // "BLOCKING" or "NONE"
	SpeculativeRetry      string
	TombstoneGC           string // cqld: "repair", "timeout", "immediate", "disabled"
	WriteOrdering         string // cqld: "" or "quorum"
}

// DefaultOptions are those of a table created without WITH, as Cassandra 5.0 has them.
func DefaultOptions() Options {
	return Options{
		AdditionalWritePolicy: "99p",
		AllowAutoSnapshot:     true,
		BloomFilterFPChance:   0.01,
		Caching:               map[string]string{"keys": "ALL", "rows_per_partition": "NONE"},
		Compaction: map[string]string{
			"class":         "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
			"max_threshold": "32", "min_threshold": "4",
		},
		Compression: map[string]string{
			"chunk_length_in_kb": "16",
			"class":              "org.apache.cassandra.io.compress.LZ4Compressor",
		},
		Memtable:           "default",
		CRCCheckChance:     1,
		GCGraceSeconds:     864000,
		IncrementalBackups: true,
		MaxIndexInterval:   2048,
		MinIndexInterval:   128,
		ReadRepair:         "BLOCKING",
		SpeculativeRetry:   "99p",
		TombstoneGC:        "repair",
	}
}
