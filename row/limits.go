package row

// The bounds of filters. A condition that exceeds them is not sent to replicas; only the coordinator evaluates it.
const (
	// filterConditionsMax bounds the conditions of a filter. A statement has one for each restricted column, and each
	// is evaluated for each row.
	filterConditionsMax = 64
	// filterValuesMax bounds the values of IN, which a replica searches linearly for each row.
	filterValuesMax = 128
	// filterTypeDepthMax bounds the nesting of the type of a column.
	filterTypeDepthMax = 8
	// filterDimensionsMax is the greatest number of dimensions of a vector in a filter.
	filterDimensionsMax = 1 << 16
)
