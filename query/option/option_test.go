package option

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"cqld/query/invalid"
)

// TestStrings compares the canonical forms of the options that are strings. An empty one means that the option is
// refused.
func TestStrings(t *testing.T) {
	for _, x := range []struct {
		parse      func(string) (string, error)
		text, want string
	}{
		{ParseSpeculativeRetry, "99p", "99p"},
		{ParseSpeculativeRetry, "50PERCENTILE", "50p"},
		{ParseSpeculativeRetry, "99.90percentile", "99.9p"},
		{ParseSpeculativeRetry, "50.7ms", "50ms"},
		{ParseSpeculativeRetry, " min( 99p , 50ms )", "MIN(99p,50ms)"},
		{ParseSpeculativeRetry, "max(50ms,99p)", "MAX(50ms,99p)"},
		{ParseSpeculativeRetry, "none", "NEVER"},
		{ParseSpeculativeRetry, "always", "ALWAYS"},
		{ParseSpeculativeRetry, "min(1ms,2ms)", ""},
		{ParseSpeculativeRetry, "min(1ms)", ""},
		{ParseSpeculativeRetry, "100p", ""},
		{ParseSpeculativeRetry, "0p", ""},
		{ParseSpeculativeRetry, "-1ms", ""},
		{ParseSpeculativeRetry, "0x10ms", ""},
		{ParseSpeculativeRetry, "5pms", ""},
		{ParseSpeculativeRetry, "", ""},
		{ParseReadRepair, "blocking", "BLOCKING"},
		{ParseReadRepair, "async", ""},
		{ParseTombstoneGC, "Timeout", "timeout"},
		{ParseTombstoneGC, "", ""},
		{ParseWriteOrdering, "QUORUM", "quorum"},
		{ParseWriteOrdering, "all", ""},
	} {
		got, err := x.parse(x.text)
		if got != x.want || (err == nil) != (x.want != "") {
			t.Errorf("%q is %q, %v, want %q", x.text, got, err, x.want)
		}
		if config := new(invalid.Config); err != nil && !errors.As(err, &config) {
			t.Errorf("%q: %T is no configuration error", x.text, err)
		}
	}
}

// TestMaps compares the canonical forms of the map options. nil means that the option is refused. Parsing a canonical
// form again returns it unchanged, and the given maps are not modified.
func TestMaps(t *testing.T) {
	type options = map[string]string
	const compactions, compressors = "org.apache.cassandra.db.compaction.", "org.apache.cassandra.io.compress."
	for _, x := range []struct {
		parse      func(options) (options, error)
		from, want options
	}{
		{ParseCaching, options{}, options{"keys": "NONE", "rows_per_partition": "NONE"}},
		{ParseCaching, options{"keys": "all", "rows_per_partition": "10"},
			options{"keys": "ALL", "rows_per_partition": "10"}},
		{ParseCaching, options{"keys": "some"}, nil},
		{ParseCaching, options{"columns": "ALL"}, nil},
		{ParseCompression, options{"class": "LZ4Compressor"},
			options{"class": compressors + "LZ4Compressor", "chunk_length_in_kb": "16"}},
		{ParseCompression, options{"enabled": "false"}, options{"enabled": "false"}},
		{ParseCompression, options{"class": "LZ4Compressor", "chunk_length_in_kb": "3"}, nil},
		{ParseCompression, options{"class": "NoSuchCompressor"}, nil},
		{ParseCompaction, options{"class": "SizeTieredCompactionStrategy"}, options{"max_threshold": "32",
			"class": compactions + "SizeTieredCompactionStrategy", "min_threshold": "4"}},
		{ParseCompaction, options{"class": "SizeTieredCompactionStrategy", "min_threshold": "1"}, nil},
		{ParseCompaction, options{"class": "LeveledCompactionStrategy", "no_such_option": "1"}, nil},
		{ParseCompaction, options{}, nil},
	} {
		before := maps.Clone(x.from)
		got, err := x.parse(x.from)
		if (err == nil) != (x.want != nil) || err == nil && !maps.Equal(got, x.want) {
			t.Errorf("%v is %v, %v, want %v", x.from, got, err, x.want)
		}
		if !maps.Equal(x.from, before) {
			t.Errorf("%v became %v", before, x.from)
		}
		if again, err := x.parse(got); x.want != nil && (err != nil || fmt.Sprint(again) != fmt.Sprint(got)) {
			t.Errorf("%v, parsed again, is %v, %v", got, again, err)
		}
	}
}
