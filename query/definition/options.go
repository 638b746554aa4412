package definition

import (
	"encoding/hex"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/option"
	"cqld/schema"
)

// tableProperties returns the valid property names in WITH of a table: Cassandra's, and cqld's own tombstone_gc and
// write_ordering.
func tableProperties() []string {
	return []string{"id", "additional_write_policy", "allow_auto_snapshot", "bloom_filter_fp_chance", "caching", "cdc",
		"comment", "compaction", "compression", "crc_check_chance", "default_time_to_live", "extensions",
		"gc_grace_seconds", "incremental_backups", "max_index_interval", "memtable", "memtable_flush_period_in_ms",
		"min_index_interval", "read_repair", "speculative_retry", "tombstone_gc", "write_ordering"}
}

// tableOptions returns o with the options of WITH applied, and the names of these options in the order in which they
// are read. It validates the values, also in combination (Validate). o is a copy whose maps are replaced and never
// modified. The property id is accepted but not read, because it is not an option.
func tableOptions(o schema.Options, of cql.Properties) (schema.Options, []string, error) {
	// Names are checked before any value.
	p, err := newProperties(of, tableProperties()...)
	if err != nil {
		return o, nil, err
	}
	// Of several errors, the first in this order is reported.
	r := optionReader{p: p}
	r.double("bloom_filter_fp_chance", &o.BloomFilterFPChance)
	r.double("crc_check_chance", &o.CRCCheckChance)
	r.integer("default_time_to_live", &o.DefaultTTL)
	r.integer("gc_grace_seconds", &o.GCGraceSeconds)
	r.integer("max_index_interval", &o.MaxIndexInterval)
	r.integer("memtable_flush_period_in_ms", &o.MemtableFlushPeriodMs)
	r.integer("min_index_interval", &o.MinIndexInterval)
	r.boolean("allow_auto_snapshot", &o.AllowAutoSnapshot)
	r.boolean("incremental_backups", &o.IncrementalBackups)
	r.boolean("cdc", &o.CDC)
	r.text("comment", &o.Comment, nil)
	r.text("memtable", &o.Memtable, parseMemtable)
	r.text("read_repair", &o.ReadRepair, option.ParseReadRepair)
	r.text("speculative_retry", &o.SpeculativeRetry, option.ParseSpeculativeRetry)
	r.text("additional_write_policy", &o.AdditionalWritePolicy, option.ParseSpeculativeRetry)
	r.text("tombstone_gc", &o.TombstoneGC, option.ParseTombstoneGC)
	r.text("write_ordering", &o.WriteOrdering, option.ParseWriteOrdering)
	r.stringMap("caching", &o.Caching, option.ParseCaching)
	r.stringMap("compaction", &o.Compaction, option.ParseCompaction)
	r.stringMap("compression", &o.Compression, option.ParseCompression)
	// nil means that the statement does not set extensions, and the old ones stay. A given map replaces all.
	var extensions map[string]string
	if r.stringMap("extensions", &extensions, nil); extensions != nil {
		o.Extensions = parseExtensions(extensions)
	}
	if o.BloomFilterFPChance == -1 { // in Cassandra, the value of an option that is not set
		o.BloomFilterFPChance = schema.DefaultOptions().BloomFilterFPChance
	}
	if r.err == nil {
		r.err = o.Validate()
	}
	return o, r.set, r.err
}

// optionReader reads options into fields. After the first invalid one, its methods do nothing and err is that error.
type optionReader struct {
	p properties
	// set lists the names of the options that were read.
	set []string
	err error
}

// next reports whether the option is present and no earlier one was invalid. If so, it adds the name to set.
func (r *optionReader) next(name string) bool {
	if r.err != nil || !r.p.has(name) {
		return false
	}
	r.set = append(r.set, name)
	return true
}

// double reads a floating-point option. The default 0 is never used, because the option is present.
func (r *optionReader) double(name string, into *float64) {
	if r.next(name) {
		*into, r.err = r.p.double(name, 0)
	}
}

// integer reads a 32-bit integer option.
func (r *optionReader) integer(name string, into *int32) {
	if r.next(name) {
		*into, r.err = r.p.integer(name, 0)
	}
}

// boolean reads a boolean option.
func (r *optionReader) boolean(name string, into *bool) {
	if r.next(name) {
		*into, r.err = r.p.boolean(name, false)
	}
}

// text reads a string option. parse validates it and returns its canonical form; nil accepts any string.
func (r *optionReader) text(name string, into *string, parse func(string) (string, error)) {
	if !r.next(name) {
		return
	}
	// The field may change although the value is invalid: the caller then discards all options.
	*into, _, r.err = r.p.text(name)
	if r.err == nil && parse != nil {
		*into, r.err = parse(*into)
	}
}

// stringMap reads a map option. parse validates it, adds defaults, and returns its canonical form; nil accepts any map.
func (r *optionReader) stringMap(name string, into *map[string]string,
	parse func(map[string]string) (map[string]string, error)) {
	if !r.next(name) {
		return
	}
	*into, _, r.err = r.p.stringMap(name)
	if r.err == nil && parse != nil {
		*into, r.err = parse(*into)
	}
}

// parseMemtable accepts only default, the configuration that exists in every Cassandra.
func parseMemtable(name string) (string, error) {
	if name != "default" {
		return "", invalid.Configf("Memtable configuration \"%s\" not found.", name)
	}
	return name, nil
}

// parseExtensions decodes hexadecimal blobs, and stores any other text as its bytes. Every value is valid: cqld does
// not interpret extensions, external tools do.
//
//	'0x00ff'         the two bytes 00 and ff
//	'0x0', 'text'    the bytes of the text
func parseExtensions(m map[string]string) map[string][]byte {
	out := make(map[string][]byte, len(m))
	for name, text := range m {
		// DESCRIBE shows extensions as blobs.
		if digits, ok := strings.CutPrefix(text, "0x"); ok {
			// With an odd number of digits, or other characters, it is text.
			if b, err := hex.DecodeString(digits); err == nil {
				out[name] = b
				continue
			}
		}
		out[name] = []byte(text)
	}
	return out
}
