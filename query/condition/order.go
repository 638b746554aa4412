package condition

import (
	"slices"

	"cqld/schema"
)

// Sort sorts the conditions on a row in the order in which Cassandra evaluates them. The first one that does not hold
// decides whether a later one with an invalid value is an error.
//
// The order is that of a Java HashMap whose keys are pairs of a column's name and an element's key. Conditions on the
// same column or element keep their order; in Cassandra it differs from execution to execution.
func Sort(all []Bound) {
	buckets := uint32(16)
	for distinct(all) > int(buckets)*3/4 {
		buckets *= 2
	}
	slices.SortStableFunc(all, func(a, b Bound) int { return int(a.bucket(buckets)) - int(b.bucket(buckets)) })
}

// distinct returns the number of columns and elements.
func distinct(all []Bound) int {
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
func (b *Bound) bucket(buckets uint32) uint32 {
	element := int32(0)
	if b.at != nil {
		element = hash(b.at)
	}
	h := uint32(31*(31+hash([]byte(b.Column.Name))) + element)
	return (h ^ h>>16) & (buckets - 1)
}

// hash returns the hash code of a Java ByteBuffer.
func hash(b []byte) int32 {
	h := int32(1)
	for _, x := range slices.Backward(b) {
		h = 31*h + int32(int8(x))
	}
	return h
}
