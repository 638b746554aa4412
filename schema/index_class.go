package schema

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"cqld/internal/javanumber"
	"cqld/types"
)

// Options of indexes, in the words of Cassandra. The first three are SAI's analysis, then its options for vectors; the
// others are SASI's. customVectorParameters is a system property of Cassandra, and customIndexColumnNameMax a length in
// bytes.
const (
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

// checkClass checks the rules of the class of an index that t does not have yet. t must be sealed. The common rules
// were checked before (CreateIndex.index).
func (ix *Index) checkClass(t *Table) error {
	//exhaustive:enforce
	switch ix.Class {
	case LegacyIndex:
		return nil
	case SAI:
		return ix.checkSAI(t)
	case SASI:
		return ix.checkSASI(t)
	}
	return misconfiguredf("Unable to find custom indexer class '%s'", ix.Options[IndexClassOption])
}

// checkCustomColumn checks a column's name, which becomes part of a file name in Cassandra.
func checkCustomColumn(name string) error {
	if !isWord(name) {
		return invalidf("Column '%s' contains non-alphanumeric-underscore characters", name)
	}
	if len(name) > customIndexColumnNameMax {
		return invalidf("Column '%s' is longer than the permissible name length of %d characters", name,
			customIndexColumnNameMax)
	}
	return nil
}

// TermTypes returns the types of the indexed part of a column: one, or the types of key and value for IndexEntries. The
// slice may be part of the type: callers must not modify it.
func (ix *Index) TermTypes(column *types.Type) []*types.Type {
	//exhaustive:enforce
	switch ix.Target {
	// A list or set has one part, a map has two: the value is the last one in all of them.
	case IndexValues:
		return column.Elems()[len(column.Elems())-1:]
	case IndexKeys:
		return column.Elems()[:1]
	case IndexEntries:
		return column.Elems()
	// The whole value.
	case IndexSimple, IndexFull:
	}
	return []*types.Type{column}
}

// termTypeText returns the type of the terms as Cassandra's messages have it. Entries of a map are a composite there.
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

// checkSAI checks the rules of storage-attached indexes, in Cassandra's order. It does not look for options of SASI:
// they are unknown here.
//
//  1. another index of the same target
//  2. unknown options
//  3. analysis of key columns, then of values that are not text
//  4. options of vectors
//  5. types without support
//  6. rules of vectors besides options
func (ix *Index) checkSAI(t *Table) error {
	col := t.ColumnByID(ix.Column)
	// The same target with other options would be a second index of the same terms.
	for _, o := range t.indexes {
		if o.Class == SAI && o.Column == ix.Column && o.Target == ix.Target {
			return invalidf("Cannot create more than one storage-attached index on the same column: %s", col.Name)
		}
	}
	// Present options are sorted into groups first, because unknown names are reported before other errors.
	var analysis []string
	var unknown []string
	// Sorted, so that messages are always the same.
	for _, name := range slices.Sorted(maps.Keys(ix.Options)) {
		switch name {
		case OptionCaseSensitive, OptionNormalize, OptionASCII:
			analysis = append(analysis, name)
		case OptionSimilarity, OptionOptimizeFor, optionNodeConnections, optionConstructionWidth, IndexClassOption:
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return misconfiguredf("Properties specified [%s] are not understood by StorageAttachedIndex",
			strings.Join(unknown, ", "))
	}
	if len(analysis) > 0 && (col.Kind == PartitionKey || col.Kind == Clustering) {
		var parts []string
		for _, name := range analysis {
			parts = append(parts, "'"+name+"': '"+ix.Options[name]+"'")
		}
		return invalidf("Analysis options are not supported on primary key columns, but found {%s}",
			strings.Join(parts, ", "))
	}
	terms := ix.TermTypes(col.Type)
	if err := checkAnalysis(ix, analysis, terms); err != nil {
		return err
	}
	if err := checkVectorOptions(ix, terms); err != nil {
		return err
	}
	// Entries have two terms: both must be supported.
	for _, term := range terms {
		if !saiSupports(term) {
			return invalidf("Unsupported type: %s", term)
		}
	}
	return checkVector(ix, terms[0])
}

// checkAnalysis checks the options that analyze terms. analysis contains the names that are present.
func checkAnalysis(ix *Index, analysis []string, terms []*types.Type) error {
	if len(analysis) == 0 {
		return nil
	}
	// The pair of an entry is not text, even if both parts are.
	if len(terms) > 1 || !isText(terms[0]) {
		return invalidf("CQL type %s cannot be analyzed.", termTypeText(terms))
	}
	for _, name := range analysis {
		switch value := ix.Options[name]; strings.ToLower(value) {
		case "true", "false":
		case "":
			return invalidf("Empty value for boolean option '%s'", name)
		default:
			return invalidf("Illegal value for boolean option '%s': %s", name, value)
		}
	}
	return nil
}

// checkVectorOptions checks the options of indexes on vectors. Cassandra's messages have null where the index is named.
// The parameters of the graph need a system property there, which is off by default.
func checkVectorOptions(ix *Index, terms []*types.Type) error {
	has := func(name string) bool {
		_, ok := ix.Options[name]
		return ok
	}
	if !has(optionNodeConnections) && !has(optionConstructionWidth) && !has(OptionSimilarity) &&
		!has(OptionOptimizeFor) {
		return nil
	}
	// A missing option is an empty word, which the cases do not test.
	similarity, goal := strings.ToUpper(ix.Options[OptionSimilarity]), strings.ToUpper(ix.Options[OptionOptimizeFor])
	switch {
	case terms[0].Kind() != types.Vector:
		return invalidf("CQL type %s cannot have vector options", termTypeText(terms))
	case has(optionNodeConnections):
		return invalidf("Maximum node connections cannot be set without enabling %s", customVectorParameters)
	case has(optionConstructionWidth):
		return invalidf("Construction beam width cannot be set without enabling %s", customVectorParameters)
	case has(OptionSimilarity) && !slices.Contains([]string{"EUCLIDEAN", "DOT_PRODUCT", "COSINE"}, similarity):
		return invalidf("Similarity function %s was not recognized for index null. Valid values are: EUCLIDEAN, "+
			"DOT_PRODUCT, COSINE", similarity)
	// The goal is checked and has no effect on results.
	case has(OptionOptimizeFor) && goal != "LATENCY" && goal != "RECALL":
		return invalidf("optimize_for '%s' was not recognized for index null. Valid values are: LATENCY, RECALL", goal)
	}
	return nil
}

// saiSupports reports whether storage-attached indexes support terms of a type.
func saiSupports(t *types.Type) bool {
	//exhaustive:ignore
	switch t.Kind() {
	case types.Blob, types.Counter, types.Duration, types.Custom:
		return false
	}
	return true
}

// checkVector checks a vector type, which has rules besides its options. Without an option the similarity is cosine.
func checkVector(ix *Index, t *types.Type) error {
	if t.Kind() != types.Vector {
		return nil
	}
	if t.Elems()[0].Kind() != types.Float {
		return invalidf("SAI ANN indexes are only allowed on vector columns with float elements")
	}
	similarity := strings.ToUpper(ix.Options[OptionSimilarity])
	// The cosine of vectors with one dimension is 1 or -1.
	if t.Dimensions() == 1 && (similarity == "" || similarity == "COSINE") {
		return invalidf("Cosine similarity is not supported for single-dimension vectors")
	}
	return nil
}

// Literal reports whether a SASI index on col has texts, which LIKE finds, or other values, which it finds by range. As
// in Cassandra, texts of a descending clustering column are other values, unless the option is_literal is true. The
// option may contradict the type.
func (ix *Index) Literal(col *Column) bool {
	if text, ok := ix.Options[optionIsLiteral]; ok {
		return strings.EqualFold(text, "true")
	}
	return isText(col.Type) && !col.Desc
}

// checkSASI checks the rules of SSTable-attached secondary indexes, in Cassandra's order. All its errors are
// configuration errors, unlike SAI's.
//
//  1. columns of several cells, partition keys
//  2. the analyzer and its options
//  3. the mode
//  4. the amount of memory
//  5. SPARSE with texts or analysis
func (ix *Index) checkSASI(t *Table) error {
	col := t.ColumnByID(ix.Column)
	if col.Type.MultiCell() {
		return misconfiguredf("complex columns are not yet supported by SASI")
	}
	if col.Kind == PartitionKey {
		return misconfiguredf("partition key columns are not yet supported by SASI")
	}
	analyzer, analyzed := ix.Options[OptionAnalyzerClass]
	if analyzed {
		if err := checkSASIAnalyzer(ix, analyzer, col); err != nil {
			return err
		}
	}
	// The option decides, if there is one; otherwise a class means that values are analyzed.
	if text, ok := ix.Options[OptionAnalyzed]; ok {
		analyzed = strings.EqualFold(text, "true")
	}
	// The mode is compared without case, and the message has the user's spelling.
	given, hasMode := ix.Options[OptionMode]
	mode := strings.ToUpper(given)
	switch {
	case !hasMode, mode == "PREFIX", mode == "CONTAINS", mode == "SPARSE":
	default:
		return misconfiguredf("Incorrect index mode: %s", given)
	}
	// SPARSE needs values that are not texts.
	literal := ix.Literal(col)
	// The amount of memory has no effect, but must be a number.
	if text, ok := ix.Options[optionFlushMemory]; ok {
		if _, err := javanumber.ParseInt(text, 64); err != nil {
			return misconfiguredf("Failed to validate custom indexer options: %s", javaMap(t.ShownOptions(ix)))
		}
	}
	switch {
	case mode == "SPARSE" && literal:
		return misconfiguredf("SPARSE mode is only supported on non-literal columns.")
	case mode == "SPARSE" && analyzed:
		return misconfiguredf("SPARSE mode doesn't support analyzers.")
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

// isCharacter reports whether a text is one character of Java: one of the basic multilingual plane. Others are two.
func isCharacter(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && size == len(text) && r <= 0xffff
}

// checkSASIAnalyzer checks the class of an analyzer and its options. Cassandra answers contradictory options of lower
// and upper case, and a delimiter that is not one character, with a server error; here they are configuration errors.
func checkSASIAnalyzer(ix *Index, class string, col *Column) error {
	name, ok := strings.CutPrefix(class, SASIAnalyzerPackage)
	// The standard analyzer has a prefix to these names.
	lower, upper := "normalize_lowercase", "normalize_uppercase"
	// Only Cassandra's own analyzers exist here: classes of users cannot be loaded.
	switch {
	case ok && name == SASINoOpAnalyzer:
		return nil
	case ok && (name == SASIVerbatimAnalyzer || name == SASIDelimiterAnalyzer):
	case ok && name == SASIStandardAnalyzer:
		lower, upper = "tokenization_"+lower, "tokenization_"+upper
	default:
		return misconfiguredf("Unable to find analyzer class '%s'", class)
	}
	// Descending columns have a type of their own in Cassandra, which is not text.
	if !isText(col.Type) || col.Desc {
		return misconfiguredf("%s does not support type %s", name, col.Type)
	}
	if delimiter, ok := ix.Options[OptionDelimiter]; ok && name == SASIDelimiterAnalyzer && !isCharacter(delimiter) {
		return misconfiguredf("%s must be one character, but was '%s'", OptionDelimiter, delimiter)
	}
	_, hasLower := ix.Options[lower]
	_, hasUpper := ix.Options[upper]
	if _, ok := ix.Options[OptionCaseSensitive]; ok && name == SASIVerbatimAnalyzer && (hasLower || hasUpper) {
		return misconfiguredf("case_sensitive option cannot be specified together with either normalize_lowercase " +
			"or normalize_uppercase")
	}
	if name != SASIDelimiterAnalyzer && strings.EqualFold(ix.Options[lower], "true") &&
		strings.EqualFold(ix.Options[upper], "true") {
		return misconfiguredf("%s and %s cannot both be true", lower, upper)
	}
	return nil
}
