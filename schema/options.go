package schema

import (
	"math"
	"strconv"
	"strings"
)

// Options are a table's options, with Cassandra's names (CREATE TABLE … WITH). All are stored and shown; docs/limits.md
// lists those that have an effect. Maps are never modified, only replaced: tables share them.
//
// Options that describe Cassandra's files are validated, stored and shown without effect: AdditionalWritePolicy,
// AllowAutoSnapshot, BloomFilterFPChance, Caching, CDC, Compaction, Compression, Memtable, CRCCheckChance, Extensions,
// IncrementalBackups, MaxIndexInterval, MemtableFlushPeriodMs and MinIndexInterval.
type Options struct {
	// AdditionalWritePolicy has the form of SpeculativeRetry.
	AdditionalWritePolicy string
	AllowAutoSnapshot     bool
	// BloomFilterFPChance is p with 0 < p ≤ 1.
	BloomFilterFPChance float64
	// Caching has the keys "keys" and "rows_per_partition".
	Caching map[string]string
	// CDC is Cassandra's change data capture.
	CDC bool
	// Comment is set by WITH comment or COMMENT ON TABLE, whichever came last.
	Comment string
	// Compaction has the full class name under "class".
	Compaction map[string]string
	// Compression {"enabled": "false"} means none.
	Compression map[string]string
	// Memtable names a configuration; "default" is the only one.
	Memtable string
	// CRCCheckChance is 0 to 1.
	CRCCheckChance float64
	DefaultTTL     int32 // seconds
	Extensions     map[string][]byte
	// GCGraceSeconds is in seconds.
	GCGraceSeconds     int32
	IncrementalBackups bool
	// MaxIndexInterval is at least MinIndexInterval.
	MaxIndexInterval int32
	// MemtableFlushPeriodMs is in milliseconds, at least 0.
	MemtableFlushPeriodMs int32
	// MinIndexInterval is at least 1.
	MinIndexInterval int32
	ReadRepair       string // "BLOCKING" or "NONE"
	// SpeculativeRetry is in canonical form, as package query/option returns it.
	SpeculativeRetry string
	// TombstoneGC says when tombstones may be purged, in ScyllaDB's words (package query/option).
	TombstoneGC string // cqld: "repair", "timeout", "immediate", "disabled"
	// WriteOrdering "quorum" makes the coordinator raise timestamps of writes above the timestamps of the current data.
	WriteOrdering string // cqld: "" or "quorum"
	Label         string `json:",omitempty"` // of SECURITY LABEL ON TABLE, which alone sets it
}

// LabelOption is the name of Options.Label in AlterTable.Set. It contains a space, so that WITH cannot name it.
const LabelOption = "security label"

// DefaultOptions returns the options of a table created without WITH in Cassandra 5.0. The maps are new: the caller may
// change them.
func DefaultOptions() Options {
	return Options{
		// Options that are not listed are empty or zero.
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
		Memtable:       "default",
		CRCCheckChance: 1,
		// Ten days.
		GCGraceSeconds:     864000,
		IncrementalBackups: true,
		MaxIndexInterval:   2048,
		MinIndexInterval:   128,
		ReadRepair:         "BLOCKING",
		SpeculativeRetry:   "99p",
		TombstoneGC:        "repair",
	}
}

// with returns o with the named options copied from p. Unknown names are ignored.
func (o Options) with(p *Options, names []string) Options {
	// The result shares the maps of p, which are replaced, never modified.
	for _, name := range names {
		switch name {
		case "additional_write_policy":
			o.AdditionalWritePolicy = p.AdditionalWritePolicy
		case "allow_auto_snapshot":
			o.AllowAutoSnapshot = p.AllowAutoSnapshot
		case "bloom_filter_fp_chance":
			o.BloomFilterFPChance = p.BloomFilterFPChance
		case "caching":
			o.Caching = p.Caching
		case "cdc":
			o.CDC = p.CDC
		case "comment":
			o.Comment = p.Comment
		case LabelOption:
			o.Label = p.Label
		case "compaction":
			o.Compaction = p.Compaction
		case "compression":
			o.Compression = p.Compression
		case "memtable":
			o.Memtable = p.Memtable
		case "crc_check_chance":
			o.CRCCheckChance = p.CRCCheckChance
		case "default_time_to_live":
			o.DefaultTTL = p.DefaultTTL
		case "extensions":
			o.Extensions = p.Extensions
		default:
			o = o.withRest(p, name)
		}
	}
	return o
}

// withRest is the second half of with.
func (o Options) withRest(p *Options, name string) Options {
	// id is not an option, and with has copied extensions.
	switch name {
	case "gc_grace_seconds":
		o.GCGraceSeconds = p.GCGraceSeconds
	case "incremental_backups":
		o.IncrementalBackups = p.IncrementalBackups
	case "max_index_interval":
		o.MaxIndexInterval = p.MaxIndexInterval
	case "memtable_flush_period_in_ms":
		o.MemtableFlushPeriodMs = p.MemtableFlushPeriodMs
	case "min_index_interval":
		o.MinIndexInterval = p.MinIndexInterval
	case "read_repair":
		o.ReadRepair = p.ReadRepair
	case "speculative_retry":
		o.SpeculativeRetry = p.SpeculativeRetry
	case "tombstone_gc":
		o.TombstoneGC = p.TombstoneGC
	case "write_ordering":
		o.WriteOrdering = p.WriteOrdering
	}
	return o
}

// TTLMax is twenty years in seconds, the longest time to live of a cell, as in Cassandra.
const TTLMax = 20 * 365 * 24 * 60 * 60

// Validate checks the ranges of numeric options. Maps and policies were validated when they were parsed (package
// query/option). Errors are configuration errors with Cassandra's messages.
func (o *Options) Validate() error {
	// The lower bound is the false-positive rate of Cassandra's largest filter (20 buckets per element).
	if !(o.BloomFilterFPChance > 6.71e-5 && o.BloomFilterFPChance <= 1) { // also rejects NaN
		return misconfiguredf("bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 "+
			"(got %s)",
			FormatDouble(o.BloomFilterFPChance))
	}
	if !(o.CRCCheckChance >= 0 && o.CRCCheckChance <= 1) {
		return misconfiguredf("crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 "+
			"(got %s)",
			FormatDouble(o.CRCCheckChance))
	}
	// The order of the cases decides which error is reported.
	switch {
	case o.DefaultTTL < 0:
		return misconfiguredf("default_time_to_live must be greater than or equal to 0 (got %d)", o.DefaultTTL)
	case o.DefaultTTL > TTLMax:
		return misconfiguredf("default_time_to_live must be less than or equal to %d (got %d)", TTLMax, o.DefaultTTL)
	case o.GCGraceSeconds < 0:
		return misconfiguredf("gc_grace_seconds must be greater than or equal to 0 (got %d)", o.GCGraceSeconds)
	case o.MinIndexInterval < 1:
		return misconfiguredf("min_index_interval must be greater than or equal to 1 (got %d)", o.MinIndexInterval)
	case o.MaxIndexInterval < o.MinIndexInterval:
		return misconfiguredf("max_index_interval must be greater than or equal to min_index_interval (%d) (got %d)",
			o.MinIndexInterval, o.MaxIndexInterval)
	case o.MemtableFlushPeriodMs < 0:
		return misconfiguredf("memtable_flush_period_in_ms must be greater than or equal to 0 (got %d)",
			o.MemtableFlushPeriodMs)
	}
	return nil
}

// FormatDouble writes f as Java's Double.toString does: "1.0", "0.01", "6.71E-5". Java uses the exponent below 10^-3
// and from 10^7 on.
//
//	0.5    0.5       0.0001     1.0E-4
//	1      1.0       12345678   1.2345678E7
func FormatDouble(f float64) string {
	if a := math.Abs(f); a == 0 || a >= 1e-3 && a < 1e7 {
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		// Go formats +Inf and -Inf, Java Infinity and -Infinity.
		return strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64), "+") + "inity"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent) // removes the sign and zeros before the exponent; FormatFloat wrote it
	return mantissa + "E" + strconv.Itoa(n)
}
