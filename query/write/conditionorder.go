package write

import (
	"slices"

	"cqld/schema"
)

// sortConditions sorts the conditions on a row in the order in which Cassandra evaluates them. Conditions after the
// first one that does not hold are not evaluated, so their invalid values cause no error.
//
// The order equals that in a Java HashMap whose keys are pairs of a column's name and an element's key. Conditions on
// the same column or element keep their order; in Cassandra it differs from execution to execution.
func sortConditions(all []boundCondition) {
	// A HashMap begins with 16 buckets and doubles them when more than three quarters are taken.
	buckets := uint32(16)
	for distinctColumns(all) > int(buckets)*3/4 {
		buckets *= 2
	}
	slices.SortStableFunc(all, func(a, b boundCondition) int { return int(a.bucket(buckets)) - int(b.bucket(buckets)) })
}

// distinctColumns returns the number of different columns and elements: the size of Cassandra's map.
func distinctColumns(all []boundCondition) int {
	// A single condition needs no map.
	if len(all) < 2 {
		return len(all)
	}
	type place struct {
		column *schema.Column
		at     string
	}
	places := make(map[place]bool, len(all))
	for i := range all {
		// A condition on a column and one on its element with an empty key count as one place. This rarely matters,
		// because the number of buckets only changes with 13 places.
		places[place{all[i].Column, string(all[i].at)}] = true
	}
	return len(places)
}

// bucket returns the bucket of the condition in a HashMap with the given number of buckets, a power of two.
func (b *boundCondition) bucket(buckets uint32) uint32 {
	// A null key has the hash code 0 in Java.
	element := int32(0)
	if b.at != nil {
		element = javaHash(b.at)
	}
	// Objects.hash of a pair: 31 * (31 * 1 + first) + second.
	h := uint32(31*(31+javaHash([]byte(b.Column.Name))) + element)
	// HashMap spreads the upper bits of a hash code over the lower ones.
	return (h ^ h>>16) & (buckets - 1)
}

// javaHash returns the hash code of a Java ByteBuffer: a polynomial of its signed bytes, from the last to the first. A
// column's identifier has the hash code of its name's bytes.
func javaHash(b []byte) int32 {
	h := int32(1)
	for _, x := range slices.Backward(b) {
		h = 31*h + int32(int8(x))
	}
	return h
}
