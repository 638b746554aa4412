package write

import (
	"slices"

	"cqld/schema"
)

// sortConditions sorts the conditions on a row in the order in which Cassandra evaluates them. The first one that does
// not hold decides whether a later one with an invalid value is an error.
//
// The order equals that in a Java HashMap whose keys are pairs of a column's name and an element's key. Conditions on
// the same column or element keep their order; in Cassandra it differs from execution to execution.
func sortConditions(all []boundCondition) {
	buckets := uint32(16)
	for distinctColumns(all) > int(buckets)*3/4 {
		buckets *= 2
	}
	slices.SortStableFunc(all, func(a, b boundCondition) int { return int(a.bucket(buckets)) - int(b.bucket(buckets)) })
}

// distinct returns the number of columns and elements.
func distinctColumns(all []boundCondition) int {
	if len(all) < 2 {
		return len(all)
	}
	type place struct {
		column *schema.Column
		at     string
	}
	places := make(map[place]bool, len(all))
	for i := range all {
		places[place{all[i].Column, string(all[i].at)}] = true
	}
	return len(places)
}

// bucket returns the place of the condition in a HashMap with that number of buckets.
func (b *boundCondition) bucket(buckets uint32) uint32 {
	element := int32(0)
	if b.at != nil {
		element = javaHash(b.at)
	}
	h := uint32(31*(31+javaHash([]byte(b.Column.Name))) + element)
	return (h ^ h>>16) & (buckets - 1)
}

// hash returns the hash code of a Java ByteBuffer.
func javaHash(b []byte) int32 {
	h := int32(1)
	for _, x := range slices.Backward(b) {
		h = 31*h + int32(int8(x))
	}
	return h
}
