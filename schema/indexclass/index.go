package indexclass

import (
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// Options of indexes, in the words of Cassandra. After the class come SAI's analysis, its options for vectors, and
// SASI's options. customVectorParameters is a system property of Cassandra, and customIndexColumnNameMax a length in
// bytes.
const (
	// OptionClass is the class name as written. CREATE INDEX computes it; users cannot set it.
	OptionClass = "class_name"

	OptionCaseSensitive = "case_sensitive"
	OptionNormalize     = "normalize"
	OptionASCII         = "ascii"

	OptionSimilarity         = "similarity_function"
	OptionOptimizeFor        = "optimize_for"
	optionNodeConnections    = "maximum_node_connections"
	optionConstructionWidth  = "construction_beam_width"
	customVectorParameters   = "SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"
	OptionMode               = "mode"
	OptionAnalyzerClass      = "analyzer_class"
	OptionAnalyzed           = "analyzed"
	OptionDelimiter          = "delimiter"
	optionIsLiteral          = "is_literal"
	optionFlushMemory        = "max_compaction_flush_memory_in_mb"
	customIndexColumnNameMax = 48
)

// Full class names of Cassandra's index implementations and of SASI's analyzers.
const (
	SAIClassName  = "org.apache.cassandra.index.sai.StorageAttachedIndex"
	SASIClassName = "org.apache.cassandra.index.sasi.SASIIndex"

	SASIAnalyzerPackage   = "org.apache.cassandra.index.sasi.analyzer."
	SASIStandardAnalyzer  = "StandardAnalyzer"
	SASIVerbatimAnalyzer  = "NonTokenizingAnalyzer"
	SASIDelimiterAnalyzer = "DelimiterAnalyzer"
	SASINoOpAnalyzer      = "NoOpAnalyzer"
)

// Index is a new index, with its column.
type Index struct {
	Options map[string]string
	// Shown are the options as in system_schema.indexes, for messages.
	Shown map[string]string
	Type  *types.Type // of the column
	// Terms are the types of the indexed part of the column: one type, or the types of key and value for map entries.
	Terms        []*types.Type
	PartitionKey bool
	Clustering   bool
	Desc         bool // a clustering column in descending order
}

// CheckName returns an error unless the column's name is valid in a file name: it is part of the names of Cassandra's
// index files.
func CheckName(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return !isWordRune(r) }) || name == "" {
		return refused.Invalidf("Column '%s' contains non-alphanumeric-underscore characters", name)
	}
	if len(name) > customIndexColumnNameMax {
		return refused.Invalidf("Column '%s' is longer than the permissible name length of %d characters", name,
			customIndexColumnNameMax)
	}
	return nil
}

// isWordRune reports whether a character is an ASCII letter, a digit or an underscore.
func isWordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}

// termTypeText returns the type of the terms as in Cassandra's messages, where map entries are a composite.
//
//	one term       text
//	entries        'org.apache.cassandra.db.marshal.CompositeType(…UTF8Type,…Int32Type)'
func termTypeText(terms []*types.Type) string {
	if len(terms) == 1 {
		return terms[0].String()
	}
	var classes []string
	for _, t := range terms {
		classes = append(classes, t.DeclaredClass())
	}
	return "'org.apache.cassandra.db.marshal.CompositeType(" + strings.Join(classes, ",") + ")'"
}

// isText reports whether terms of a type can be analyzed.
func isText(t *types.Type) bool { return t.Kind() == types.Text || t.Kind() == types.Ascii }
