package option

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"cqld/internal/javanumber"
	"cqld/query/invalid"
	"cqld/schema"
)

// compactionPackage is the Java package of Cassandra's strategies. Class names without a package belong to it.
const compactionPackage = "org.apache.cassandra.db.compaction."

// ParseCompaction validates the option compaction and returns it in the form that DESCRIBE shows: with the full class
// name and the default thresholds. The option is stored and shown, but has no effect (docs/limits.md). m is not
// changed. Errors are *invalid.Config.
//
//	{class: LeveledCompactionStrategy, fanout_size: 5} becomes
//	{class: org.apache.cassandra.db.compaction.LeveledCompactionStrategy, fanout_size: 5,
//	 max_threshold: 32, min_threshold: 4}
func ParseCompaction(m map[string]string) (map[string]string, error) {
	class, ok := m["class"]
	if !ok {
		return nil, invalid.Configf("Missing sub-option 'class' for the 'compaction' option")
	}
	if !strings.Contains(class, ".") {
		class = compactionPackage + class
	}
	strategy := strings.TrimPrefix(class, compactionPackage)
	// known is nil for an unknown strategy, and empty for a strategy without specific options.
	known := compactionOptions(strategy)
	// User-defined strategies cannot be loaded.
	if known == nil || !strings.HasPrefix(class, compactionPackage) {
		return nil, invalid.Configf("Unable to find compaction strategy class '%s'", class)
	}
	out := maps.Clone(m)
	out["class"] = class
	if strategy != "UnifiedCompactionStrategy" {
		setDefault(out, "min_threshold", "4")
		setDefault(out, "max_threshold", "32")
	}
	// As in Cassandra, an invalid value is reported before an unknown name.
	var unknown []string
	// Iterate in sorted order, so that the reported error is deterministic.
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name == "class" {
			continue
		}
		check := known[name]
		if check == nil {
			check = commonCompactionOptions(name)
		}
		// UnifiedCompactionStrategy has no min_threshold and max_threshold.
		if check == nil || strategy == "UnifiedCompactionStrategy" && strings.HasSuffix(name, "_threshold") &&
			name != "tombstone_threshold" {
			unknown = append(unknown, name)
			continue
		}
		if err := check(name, m[name]); err != nil {
			return nil, err
		}
	}
	if unknown != nil {
		return nil, invalid.Configf("Properties specified [%s] are not understood by %s", strings.Join(unknown, ", "),
			strategy)
	}
	// checkTogether relies on values that were validated above.
	return out, checkTogether(out)
}

// setDefault sets an option unless it is present.
func setDefault(m map[string]string, name, value string) {
	if _, ok := m[name]; !ok {
		m[name] = value
	}
}

// checkTogether checks options that depend on each other. Each of them was valid by itself.
func checkTogether(m map[string]string) error {
	// All but the unified strategy have thresholds by default.
	if text, ok := m["min_threshold"]; ok {
		low, _ := javanumber.ParseUnsigned(text) // both values were validated before
		high, _ := javanumber.ParseUnsigned(m["max_threshold"])
		switch {
		case low == 0 || high == 0:
			return invalid.Configf("Disabling compaction by setting compaction thresholds to 0 has been removed, " +
				"set the compaction option 'enabled' to false instead.")
		case low < 2:
			return invalid.Configf("Min compaction threshold cannot be less than 2 (got %d)", low)
		case low > high:
			return invalid.Configf("Min compaction threshold (got %d) cannot be greater than max compaction "+
				"threshold (got %d)", low, high)
		}
	}
	// Only this strategy has these two options.
	if m["class"] == compactionPackage+"LeveledCompactionStrategy" {
		if err := checkLevels(m["sstable_size_in_mb"], m["fanout_size"]); err != nil {
			return err
		}
	}
	// Cassandra's defaults apply to missing options, which do not parse.
	low, high := 0.5, 1.5
	if f, err := javanumber.ParseDouble(m["bucket_low"]); err == nil {
		low = f
	}
	if f, err := javanumber.ParseDouble(m["bucket_high"]); err == nil {
		high = f
	}
	if high <= low {
		return invalid.Configf("bucket_high value (%s) is less than or equal to the bucket_low value (%s)",
			schema.FormatDouble(high), schema.FormatDouble(low))
	}
	return nil
}

// checkLevels rejects sizes for which Cassandra's highest level would exceed 2^63 bytes. size is in MiB, and fanout
// is the factor between levels; an empty text means the default.
func checkLevels(size, fanout string) error {
	const levels, sizeLeast, fanoutDefault = 8, 1, 10
	// The texts were validated before, so a text that does not parse is empty.
	number := func(text string, otherwise int64) *big.Int {
		if n, err := javanumber.ParseInt(text, 32); err == nil {
			otherwise = n
		}
		return big.NewInt(otherwise)
	}
	// Numbers of 32 bits to the eighth power need more than 64 bits.
	bytes := new(big.Int).Exp(number(fanout, fanoutDefault), big.NewInt(levels), nil)
	bytes.Mul(bytes, number(size, sizeLeast)).Lsh(bytes, 20)
	if !bytes.IsInt64() {
		return invalid.Configf("At most %d bytes may be in a compaction level; your maxSSTableSize must be absurdly "+
			"high to compute %s",
			int64(math.MaxInt64), bytes)
	}
	return nil
}

// optionCheck returns an error if the value of an option is invalid. The name is for the message.
type optionCheck func(name, value string) error

// commonCompactionOptions returns the check of an option that all strategies have, or nil for other options. The
// messages are Cassandra's, which have no common pattern.
func commonCompactionOptions(name string) optionCheck {
	switch name {
	case "enabled":
		return func(name, value string) error {
			if !isBool(value) {
				return invalid.Configf("enabled should either be 'true' or 'false', not %s", value)
			}
			return nil
		}
	// checkTogether validates their order and lower bounds.
	case "min_threshold", "max_threshold":
		return func(name, value string) error {
			if _, ok := javanumber.ParseUnsigned(value); !ok {
				return invalid.Configf("Invalid value %s for '%s' compaction sub-option - must be an integer", value,
					name)
			}
			return nil
		}
	case "tombstone_threshold":
		return func(name, value string) error {
			f, err := javanumber.ParseDouble(value)
			if err != nil {
				return notParsable(value, "int (base10)", name)
			}
			if f < 0 {
				return invalid.Configf("%s must be greater than 0, but was %s", name, fmt.Sprintf("%f", f))
			}
			return nil
		}
	case "tombstone_compaction_interval":
		return integerFrom(64, 0, "%s must be greater than 0, but was %d")
	case "unchecked_tombstone_compaction":
		return func(name, value string) error {
			if !isBool(value) {
				return invalid.Configf("'%s' should be either 'true' or 'false', not '%s'", name, value)
			}
			return nil
		}
	case "log_all":
		return func(name, value string) error {
			if !isBool(value) {
				return invalid.Configf("'log_all' should either be 'true' or 'false', not %s", value)
			}
			return nil
		}
	case "provide_overlapping_tombstones":
		return func(name, value string) error {
			// As in Cassandra, the message shows the value in upper case.
			upper := strings.ToUpper(value)
			if upper != "NONE" && upper != "ROW" && upper != "CELL" {
				return invalid.Configf("Invalid value %s for '%s' compaction sub-option - must be one of the "+
					"following [NONE, ROW, CELL].", upper, name)
			}
			return nil
		}
	case "only_purge_repaired_tombstones":
		return anyValue
	}
	return nil
}

// compactionOptions returns the specific options of a strategy, or nil if there is no such strategy. The name has no
// package. The map is new.
func compactionOptions(strategy string) map[string]optionCheck {
	switch strategy {
	case "SizeTieredCompactionStrategy":
		return sizeTieredOptions()
	case "LeveledCompactionStrategy":
		known := sizeTieredOptions() // level 0 is compacted by size
		known["sstable_size_in_mb"] = integerFrom(32, 1, "%s must be larger than 0, but was %d")
		known["fanout_size"] = integerFrom(32, 1, "%s must be larger than 0, but was %d")
		known["single_sstable_uplevel"] = anyValue
		return known
	// The size of a window is a number of units; this package sets no default for either.
	case "TimeWindowCompactionStrategy":
		known := sizeTieredOptions() // the newest window is compacted by size
		known["compaction_window_unit"] = oneOf("MINUTES", "HOURS", "DAYS")
		known["timestamp_resolution"] = oneOf("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES",
			"HOURS", "DAYS")
		known["compaction_window_size"] = func(name, value string) error {
			n, err := javanumber.ParseInt(value, 32)
			if err != nil {
				return notParsable(value, "int (base10)", name)
			}
			if n < 1 {
				return invalid.Configf("%d must be greater than 1 for %s", n, name) // Cassandra's wording
			}
			return nil
		}
		known["expired_sstable_check_frequency_seconds"] = integerFrom(64, 0, "%s must not be negative, but was %d")
		known["unsafe_aggressive_sstable_expiration"] = func(name, value string) error {
			if !isBool(value) {
				return invalid.Configf("%s is not 'true' or 'false' (%s)", name, value)
			}
			// Cassandra needs a system property for this.
			if strings.EqualFold(value, "true") {
				return invalid.Configf("%s is requested but not allowed, restart cassandra with "+
					"-Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it", name)
			}
			return nil
		}
		return known
	case "UnifiedCompactionStrategy":
		return unifiedOptions()
	}
	return nil
}

// sizeTieredOptions returns the options of SizeTieredCompactionStrategy, which other strategies also accept.
func sizeTieredOptions() map[string]optionCheck {
	float := func(name, value string) error {
		if _, err := javanumber.ParseDouble(value); err != nil {
			return notParsable(value, "float", name)
		}
		return nil
	}
	// checkTogether checks that bucket_low is less than bucket_high.
	return map[string]optionCheck{
		"bucket_low": float, "bucket_high": float,
		"min_sstable_size": integerFrom(64, 0, "%s must be non negative: %d"),
	}
}

// unifiedOptions returns the options of UnifiedCompactionStrategy.
func unifiedOptions() map[string]optionCheck {
	// A check holds no state, so several options can share it.
	positive := integerFrom(32, 1, "Invalid configuration, %s should be positive: %d")
	size := func(name, value string) error {
		number, ok := strings.CutSuffix(value, "B")
		if !ok {
			return invalid.Configf("%s %s is not a valid size in bytes: %s does not end in unit B", name, value, value)
		}
		// The units are decimal and binary.
		for _, unit := range [...]string{"Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T"} {
			number = strings.TrimSuffix(number, unit)
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil || f < 0 {
			return invalid.Configf("%s %s is not a valid size in bytes", name, value)
		}
		return nil
	}
	return map[string]optionCheck{
		"scaling_parameters":  checkScaling,
		"target_sstable_size": size,
		"min_sstable_size": func(name, value string) error {
			if size(name, value) != nil {
				return invalid.Configf("%s is not a valid size in bytes for %s", value, name)
			}
			return nil
		},
		"flush_size_override": size,
		"base_shard_count":    positive,
		// accepts any 32-bit number
		"max_sstables_to_compact": integerFrom(32, -1<<31, "%s %d"),
		"sstable_growth": func(name, value string) error {
			f, err := javanumber.ParseDouble(value)
			switch {
			case err != nil && strings.TrimSpace(value) == "":
				return invalid.Configf("%s is not a valid number between 0 and 1: empty String", name)
			case err != nil:
				return invalid.Configf("%s is not a valid number between 0 and 1: For input string: \"%s\"", name,
					value)
			case f < 0 || f > 1:
				return invalid.Configf("%s %s must be between 0 and 1", name, value)
			}
			return nil
		},
		"expired_sstable_check_frequency_seconds": integerFrom(64, 1,
			"Invalid configuration, %s should be positive: %d"),
		"unsafe_aggressive_sstable_expiration": func(name, value string) error {
			if !isBool(value) {
				return invalid.Configf("%s should either be 'true' or 'false', not %s", name, value)
			}
			return nil
		},
		"overlap_inclusion_method": func(_, value string) error {
			if !slices.Contains([]string{"NONE", "SINGLE", "TRANSITIVE"}, strings.ToUpper(value)) {
				return invalid.Configf("Invalid overlap inclusion method %s. The valid options are [NONE, SINGLE, "+
					"TRANSITIVE].", value)
			}
			return nil
		},
	}
}

// checkScaling validates a list of elements such as N, T4, L8 or plain numbers. Only plain numbers may have a sign.
func checkScaling(_, value string) error {
	// T is tiered, L is leveled, and N is neither.
	for part := range strings.SplitSeq(value, ",") {
		part = strings.TrimSpace(part)
		number := part
		if part != "" && (part[0] == 'T' || part[0] == 'L') {
			number = part[1:]
			if strings.HasPrefix(number, "-") || strings.HasPrefix(number, "+") {
				number = ""
			}
		}
		// N has no number.
		if _, err := strconv.ParseInt(number, 10, 32); part != "N" && err != nil {
			return invalid.Configf("Scaling parameter %s must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+", part)
		}
	}
	return nil
}

// anyValue accepts all values, as Cassandra does for some options.
func anyValue(string, string) error { return nil }

// integerFrom returns a check for integers with the given number of bits that are at least least. tooSmall is a
// format with the name and the value.
func integerFrom(bits int, least int64, tooSmall string) optionCheck {
	return func(name, value string) error {
		n, err := javanumber.ParseInt(value, bits)
		if err != nil {
			return notParsable(value, "int (base10)", name)
		}
		if n < least {
			return invalid.Configf(tooSmall, name, n)
		}
		return nil
	}
}

// oneOf returns a check that the value is one of words, ignoring case.
func oneOf(words ...string) optionCheck {
	return func(name, value string) error {
		if !slices.Contains(words, strings.ToUpper(value)) {
			return invalid.Configf("%s is not valid for %s", value, name)
		}
		return nil
	}
}

// notParsable returns the error for a value that cannot be parsed as the given kind.
func notParsable(value, kind, name string) error {
	return invalid.Configf("%s is not a parsable %s for %s", value, kind, name)
}

// isBool reports whether a text is true or false, without case.
func isBool(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}
