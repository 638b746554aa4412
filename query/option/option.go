package option

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"cqld/internal/javanumber"
	"cqld/query/invalid"
	"cqld/schema"
)

// ParseCaching validates the option caching and returns it in the form that DESCRIBE shows. Missing keys mean that
// nothing is cached, as in Cassandra.
//
//	{}                                becomes {keys: NONE, rows_per_partition: NONE}
//	{keys: all, rows_per_partition: 10} becomes {keys: ALL, rows_per_partition: 10}
func ParseCaching(m map[string]string) (map[string]string, error) {
	out := map[string]string{"keys": "NONE", "rows_per_partition": "NONE"}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value := m[name]
		upper := strings.ToUpper(value)
		switch name {
		case "keys":
			if upper != "ALL" && upper != "NONE" {
				return nil, invalid.Configf("Invalid value '%s' for caching sub-option 'keys': only 'ALL' and 'NONE' "+
					"are allowed", value)
			}
			out[name] = upper
		case "rows_per_partition":
			n, isNumber := javanumber.ParseUnsigned(value)
			if upper != "ALL" && upper != "NONE" && !isNumber {
				return nil, invalid.Configf("Invalid value '%s' for caching sub-option 'rows_per_partition': "+
					"only 'ALL', 'NONE', and integer values are allowed", value)
			}
			// Numbers are normalized: +01 is 1.
			if out[name] = upper; isNumber {
				out[name] = strconv.FormatInt(n, 10)
			}
		// Unknown keys are reported after invalid values.
		default:
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return nil, invalid.Configf("Invalid caching sub-options [%s]: only 'keys' and 'rows_per_partition' are "+
			"allowed", strings.Join(unknown, ", "))
	}
	return out, nil
}

// compressPackage is the Java package of Cassandra's compressors.
const compressPackage = "org.apache.cassandra.io.compress."

// ParseCompression validates the option compression and returns it in the form that DESCRIBE shows. An empty map, or
// enabled: false alone, means no compression. The result contains the default chunk length, although storage does not
// use it.
//
//	{}                       becomes {enabled: false}
//	{class: LZ4Compressor}   becomes {chunk_length_in_kb: 16, class: org.apache.cassandra.io.compress.LZ4Compressor}
func ParseCompression(m map[string]string) (map[string]string, error) {
	enabled := true
	if text, ok := m["enabled"]; ok {
		// As in Java, every text other than true means false.
		enabled = strings.EqualFold(text, "true")
	}
	if len(m) == 0 || !enabled {
		if len(m) > 1 {
			return nil, invalid.Configf("If the 'enabled' option is set to false no other options must be specified")
		}
		return map[string]string{"enabled": "false"}, nil
	}
	// Compression is enabled here, and needs a class.
	class, ok := m["class"]
	switch {
	case !ok:
		return nil, invalid.Configf("Missing sub-option 'class' for the 'compression' option.")
	case class == "":
		return nil, invalid.Configf("The 'class' option must not be empty. To disable compression use 'enabled' : " +
			"false")
	}
	if !strings.Contains(class, ".") {
		class = compressPackage + class
	}
	known := compressorOptions(strings.TrimPrefix(class, compressPackage))
	if known == nil || !strings.HasPrefix(class, compressPackage) {
		return nil, invalid.Configf("Could not create Compression for type %s", class)
	}
	out := map[string]string{"chunk_length_in_kb": "16", "class": class}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch name {
		// enabled: true is not shown.
		case "class", "enabled":
		case "chunk_length_in_kb":
			n, err := chunkLength(m[name])
			if err != nil {
				return nil, err
			}
			out[name] = strconv.FormatInt(n, 10)
		case "min_compress_ratio":
			f, err := javanumber.ParseDouble(m[name])
			// NaN passes this comparison; the next check rejects it.
			if f < 0 {
				return nil, invalid.Configf("Invalid negative min_compress_ratio")
			}
			if err != nil || f != 0 && !(f >= 1) {
				return nil, invalid.Configf("min_compress_ratio can either be 0 or greater than or equal to 1")
			}
			if f != 0 { // the default is not shown
				out[name] = schema.FormatDouble(f)
			}
		default:
			if !slices.Contains(known, name) {
				unknown = append(unknown, name)
			} else if err := checkCompressor(name, m[name]); err != nil {
				return nil, err
			}
			// The error below reports unknown options, so the stored value is discarded.
			out[name] = m[name]
		}
	}
	if unknown != nil {
		return nil, invalid.Configf("Unknown compression options %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

// compressorOptions returns the specific options of a compressor, or nil if there is no such compressor. A compressor
// without options has an empty list.
func compressorOptions(class string) []string {
	switch class {
	case "LZ4Compressor":
		return []string{"lz4_compressor_type", "lz4_high_compressor_level"}
	case "ZstdCompressor":
		return []string{"compression_level"}
	case "SnappyCompressor", "DeflateCompressor", "NoopCompressor":
		return []string{}
	}
	return nil
}

// checkCompressor checks an option of a compressor. Some messages contain the names of Java's exceptions, as clients of
// Cassandra see them.
func checkCompressor(name, value string) error {
	n, err := javanumber.ParseInt(value, 32)
	// Only numeric options use n.
	switch name {
	case "compression_level":
		if err != nil {
			return invalid.Configf("ZstdCompressor.create() threw an error: java.lang.NumberFormatException For "+
				"input string: \"%s\"", value)
		}
		if n < zstdLevelMin || n > zstdLevelMax {
			return invalid.Configf("ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException "+
				"compression_level=%d is invalid", n)
		}
	case "lz4_compressor_type":
		if value != "fast" && value != "high" {
			return invalid.Configf("Invalid compressor type '%s' specified for LZ4 parameter 'lz4_compressor_type'. "+
				"Valid options are [high, fast].", value)
		}
	case "lz4_high_compressor_level":
		if err != nil || n < 1 || n > 17 {
			return invalid.Configf("Invalid value [%s] for parameter 'lz4_high_compressor_level'. Value must be "+
				"between 1 and 17.", value)
		}
	}
	return nil
}

// The compression levels that the zstd library accepts.
const zstdLevelMin, zstdLevelMax = -(1 << 17), 22

// chunkLength parses chunk_length_in_kb, in KiB. It must be a power of two, such as 4, 16 or 64, and its number of
// bytes must fit into 32 bits.
func chunkLength(text string) (int64, error) {
	n, err := javanumber.ParseInt(text, 32)
	switch {
	case err != nil:
		return 0, invalid.Configf("Invalid value for chunk_length_in_kb")
	case n > math.MaxInt32/1024:
		return 0, invalid.Configf("Value of chunk_length_in_kb is too large (%d)", n)
	case n <= 0:
		return 0, invalid.Configf("Invalid negative or null chunk_length_in_kb")
	// A power of two has one bit.
	case n&(n-1) != 0:
		return 0, invalid.Configf("chunk_length_in_kb must be a power of 2")
	}
	return n, nil
}

// ParseSpeculativeRetry checks the options speculative_retry and additional_write_policy and returns them in
// canonical form: ALWAYS, NEVER, 99p, 50ms, MIN(99p,50ms). MIN and MAX need one percentile and one time. As in
// Cassandra, both options have the same error messages.
//
//	99PERCENTILE     becomes 99p
//	50.7ms           becomes 50ms
//	none             becomes NEVER
//	min(99p, 50ms)   becomes MIN(99p,50ms)
func ParseSpeculativeRetry(text string) (string, error) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	for _, function := range [...]string{"MIN", "MAX"} {
		inner, ok := strings.CutPrefix(upper, function)
		inner = strings.TrimSpace(inner)
		if !ok || !strings.HasPrefix(inner, "(") || !strings.HasSuffix(inner, ")") {
			continue
		}
		first, second, ok := strings.Cut(inner[1:len(inner)-1], ",")
		// A single argument is reported as an invalid value.
		if !ok {
			break
		}
		a, err := parseRetryTerm(text, strings.TrimSpace(first))
		if err != nil {
			return "", err
		}
		b, err := parseRetryTerm(text, strings.TrimSpace(second))
		if err != nil {
			return "", err
		}
		if kind := retryKind(a); kind == retryKind(b) {
			return "", invalid.Configf("Invalid value %s for option 'speculative_retry': "+
				"MIN()/MAX() arguments should be of different types, but both are of type %s", text, kind)
		}
		return function + "(" + a + "," + b + ")", nil
	}
	switch upper {
	case "ALWAYS":
		return upper, nil
	// NONE is an old word for NEVER.
	case "NEVER", "NONE":
		return "NEVER", nil
	}
	return parseRetryTerm(text, upper)
}

// retryKind returns the name of a canonical term's kind for error messages.
func retryKind(term string) string {
	if strings.HasSuffix(term, "p") {
		return "PERCENTILE"
	}
	return "FIXED"
}

// parseRetryTerm parses a percentile or a fixed time in upper case, and returns it in canonical form. whole is the
// option's text as the user wrote it, for errors.
func parseRetryTerm(whole, term string) (string, error) {
	number, percentile := strings.CutSuffix(term, "PERCENTILE")
	if !percentile {
		number, percentile = strings.CutSuffix(term, "P")
	}
	number, fixed := strings.CutSuffix(number, "MS")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	// Exactly one of the units must be present. ParseFloat also accepts signs, hexadecimal numbers, infinities and NaN.
	if err != nil || percentile == fixed || strings.ContainsAny(number, "+-XIN") {
		return "", invalid.Configf("Invalid value %s for option 'speculative_retry'", whole)
	}
	// Truncate fractions of milliseconds. The number has no sign, so it is not negative.
	if fixed {
		return strconv.FormatInt(int64(f), 10) + "ms", nil
	}
	if f <= 0 || f >= 100 {
		return "", invalid.Configf("Invalid value %s for PERCENTILE option 'speculative_retry': must be between (0.0 "+
			"and 100.0)", whole)
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', -1, 64), ".0") + "p", nil
}

// ParseReadRepair validates the option read_repair, ignoring case.
func ParseReadRepair(text string) (string, error) {
	upper := strings.ToUpper(text)
	if upper != "BLOCKING" && upper != "NONE" {
		return "", invalid.Configf("Invalid value %s for option 'read_repair': only 'BLOCKING' and 'NONE' are allowed",
			text)
	}
	return upper, nil
}

// ParseTombstoneGC checks cqld's option tombstone_gc. Its values are the modes of ScyllaDB's option.
func ParseTombstoneGC(text string) (string, error) {
	switch lower := strings.ToLower(text); lower {
	case "repair", "timeout", "immediate", "disabled":
		return lower, nil
	}
	return "", invalid.Configf("Invalid value %s for option 'tombstone_gc': "+
		"only 'repair', 'timeout', 'immediate' and 'disabled' are allowed", text)
}

// ParseWriteOrdering checks cqld's option write_ordering. Empty means that only timestamps order writes.
func ParseWriteOrdering(text string) (string, error) {
	switch lower := strings.ToLower(text); lower {
	case "", "quorum":
		return lower, nil
	}
	return "", invalid.Configf("Invalid value %s for option 'write_ordering': only '' and 'quorum' are allowed", text)
}
