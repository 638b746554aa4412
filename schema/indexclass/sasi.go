package indexclass

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"cqld/internal/javanumber"
	"cqld/schema/refused"
	"cqld/types"
)

// Literal reports whether a SASI index on a column of type t contains strings, which LIKE searches, or other values,
// which are searched by range. As in Cassandra, strings in a descending clustering column count as other values. The
// option is_literal overrides the type.
func Literal(options map[string]string, t *types.Type, desc bool) bool {
	if text, ok := options[optionIsLiteral]; ok {
		return strings.EqualFold(text, "true")
	}
	return isText(t) && !desc
}

// CheckSASI checks the rules of SSTable-attached secondary indexes, in Cassandra's order. All its errors are
// configuration errors, unlike SAI's.
//
//  1. columns of several cells, partition keys
//  2. the analyzer and its options
//  3. the mode
//  4. the amount of memory
//  5. SPARSE with strings or analysis
func (ix *Index) CheckSASI() error {
	if ix.Type.MultiCell() {
		return refused.Misconfiguredf("complex columns are not yet supported by SASI")
	}
	if ix.PartitionKey {
		return refused.Misconfiguredf("partition key columns are not yet supported by SASI")
	}
	analyzer, analyzed := ix.Options[OptionAnalyzerClass]
	if analyzed {
		if err := ix.checkSASIAnalyzer(analyzer); err != nil {
			return err
		}
	}
	// An explicit option decides; otherwise, an analyzer class implies analysis.
	if text, ok := ix.Options[OptionAnalyzed]; ok {
		analyzed = strings.EqualFold(text, "true")
	}
	// The mode is case-insensitive; messages show it as written.
	given, hasMode := ix.Options[OptionMode]
	mode := strings.ToUpper(given)
	switch {
	case !hasMode, mode == "PREFIX", mode == "CONTAINS", mode == "SPARSE":
	default:
		return refused.Misconfiguredf("Incorrect index mode: %s", given)
	}
	// SPARSE requires values that are not strings.
	literal := Literal(ix.Options, ix.Type, ix.Desc)
	// The memory limit has no effect, but must be a number.
	if text, ok := ix.Options[optionFlushMemory]; ok {
		if _, err := javanumber.ParseInt(text, 64); err != nil {
			return refused.Misconfiguredf("Failed to validate custom indexer options: %s", javaMap(ix.Shown))
		}
	}
	switch {
	case mode == "SPARSE" && literal:
		return refused.Misconfiguredf("SPARSE mode is only supported on non-literal columns.")
	case mode == "SPARSE" && analyzed:
		return refused.Misconfiguredf("SPARSE mode doesn't support analyzers.")
	}
	return nil
}

// javaMap returns a map as Java prints it, with sorted keys: {a=1, b=2}.
func javaMap(m map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, key+"="+m[key])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// isCharacter reports whether text is one Java character. Characters outside the basic multilingual plane are two.
func isCharacter(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && size == len(text) && r <= 0xffff
}

// checkSASIAnalyzer checks the class and options of an analyzer. Cassandra answers contradictory case options, and a
// delimiter of several characters, with a server error; cqld returns configuration errors.
func (ix *Index) checkSASIAnalyzer(class string) error {
	name, ok := strings.CutPrefix(class, SASIAnalyzerPackage)
	// The standard analyzer's options have a prefix.
	lower, upper := "normalize_lowercase", "normalize_uppercase"
	// Only Cassandra's own analyzers are supported: user classes cannot be loaded.
	switch {
	case ok && name == SASINoOpAnalyzer:
		return nil
	case ok && (name == SASIVerbatimAnalyzer || name == SASIDelimiterAnalyzer):
	case ok && name == SASIStandardAnalyzer:
		lower, upper = "tokenization_"+lower, "tokenization_"+upper
	default:
		return refused.Misconfiguredf("Unable to find analyzer class '%s'", class)
	}
	// In Cassandra, a descending column has the type ReversedType, which is not text.
	if !isText(ix.Type) || ix.Desc {
		return refused.Misconfiguredf("%s does not support type %s", name, ix.Type)
	}
	if delimiter, ok := ix.Options[OptionDelimiter]; ok && name == SASIDelimiterAnalyzer && !isCharacter(delimiter) {
		return refused.Misconfiguredf("%s must be one character, but was '%s'", OptionDelimiter, delimiter)
	}
	_, hasLower := ix.Options[lower]
	_, hasUpper := ix.Options[upper]
	if _, ok := ix.Options[OptionCaseSensitive]; ok && name == SASIVerbatimAnalyzer && (hasLower || hasUpper) {
		return refused.Misconfiguredf("case_sensitive option cannot be specified together with either " +
			"normalize_lowercase or normalize_uppercase")
	}
	if name != SASIDelimiterAnalyzer && strings.EqualFold(ix.Options[lower], "true") &&
		strings.EqualFold(ix.Options[upper], "true") {
		return refused.Misconfiguredf("%s and %s cannot both be true", lower, upper)
	}
	return nil
}
