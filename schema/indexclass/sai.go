package indexclass

import (
	"maps"
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// CheckSAI checks the rules of storage-attached indexes, in Cassandra's order. Options of SASI count as unknown.
//
//  1. unknown options
//  2. analysis of key columns, then of values that are not text
//  3. options of vectors
//  4. types without support
//  5. rules of vectors besides options
func (ix *Index) CheckSAI() error {
	// Options are grouped first, because unknown names are reported before other errors.
	var analysis []string
	var unknown []string
	// Sorted, so the same error is always reported.
	for _, name := range slices.Sorted(maps.Keys(ix.Options)) {
		switch name {
		case OptionCaseSensitive, OptionNormalize, OptionASCII:
			analysis = append(analysis, name)
		case OptionSimilarity, OptionOptimizeFor, optionNodeConnections, optionConstructionWidth, OptionClass:
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return refused.Misconfiguredf("Properties specified [%s] are not understood by StorageAttachedIndex",
			strings.Join(unknown, ", "))
	}
	if len(analysis) > 0 && (ix.PartitionKey || ix.Clustering) {
		var parts []string
		for _, name := range analysis {
			parts = append(parts, "'"+name+"': '"+ix.Options[name]+"'")
		}
		return refused.Invalidf("Analysis options are not supported on primary key columns, but found {%s}",
			strings.Join(parts, ", "))
	}
	if err := ix.checkAnalysis(analysis); err != nil {
		return err
	}
	if err := ix.checkVectorOptions(); err != nil {
		return err
	}
	// Map entries have two terms; both must be supported.
	for _, term := range ix.Terms {
		if !saiSupports(term) {
			return refused.Invalidf("Unsupported type: %s", term)
		}
	}
	return ix.checkVector()
}

// checkAnalysis checks the options for the analysis of terms. analysis contains the names of the given options.
func (ix *Index) checkAnalysis(analysis []string) error {
	if len(analysis) == 0 {
		return nil
	}
	// A map entry is not text, even if its key and value are.
	if len(ix.Terms) > 1 || !isText(ix.Terms[0]) {
		return refused.Invalidf("CQL type %s cannot be analyzed.", termTypeText(ix.Terms))
	}
	for _, name := range analysis {
		switch value := ix.Options[name]; strings.ToLower(value) {
		case "true", "false":
		case "":
			return refused.Invalidf("Empty value for boolean option '%s'", name)
		default:
			return refused.Invalidf("Illegal value for boolean option '%s': %s", name, value)
		}
	}
	return nil
}

// checkVectorOptions checks the options of vector indexes. Cassandra's messages have null instead of the index's name.
// In Cassandra, graph parameters need a system property that is off by default.
func (ix *Index) checkVectorOptions() error {
	has := func(name string) bool {
		_, ok := ix.Options[name]
		return ok
	}
	if !has(optionNodeConnections) && !has(optionConstructionWidth) && !has(OptionSimilarity) &&
		!has(OptionOptimizeFor) {
		return nil
	}
	// A missing option is an empty string, which only matters if has is true.
	similarity, goal := strings.ToUpper(ix.Options[OptionSimilarity]), strings.ToUpper(ix.Options[OptionOptimizeFor])
	switch {
	case ix.Terms[0].Kind() != types.Vector:
		return refused.Invalidf("CQL type %s cannot have vector options", termTypeText(ix.Terms))
	case has(optionNodeConnections):
		return refused.Invalidf("Maximum node connections cannot be set without enabling %s", customVectorParameters)
	case has(optionConstructionWidth):
		return refused.Invalidf("Construction beam width cannot be set without enabling %s", customVectorParameters)
	case has(OptionSimilarity) && !slices.Contains([]string{"EUCLIDEAN", "DOT_PRODUCT", "COSINE"}, similarity):
		return refused.Invalidf("Similarity function %s was not recognized for index null. Valid "+
			"values are: EUCLIDEAN, DOT_PRODUCT, COSINE", similarity)
	// The option is validated, but has no effect on results.
	case has(OptionOptimizeFor) && goal != "LATENCY" && goal != "RECALL":
		return refused.Invalidf("optimize_for '%s' was not recognized for index null. Valid values are: "+
			"LATENCY, RECALL", goal)
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

// checkVector checks a vector type. The default similarity is cosine.
func (ix *Index) checkVector() error {
	t := ix.Terms[0]
	if t.Kind() != types.Vector {
		return nil
	}
	if t.Elems()[0].Kind() != types.Float {
		return refused.Invalidf("SAI ANN indexes are only allowed on vector columns with float elements")
	}
	similarity := strings.ToUpper(ix.Options[OptionSimilarity])
	// The cosine similarity of one-dimensional vectors is 1 or -1.
	if t.Dimensions() == 1 && (similarity == "" || similarity == "COSINE") {
		return refused.Invalidf("Cosine similarity is not supported for single-dimension vectors")
	}
	return nil
}
