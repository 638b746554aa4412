package term

import "cqld/schema"

// PartitionKeyMarkers returns the markers of the partition key's columns, or nothing unless each has one. The numbers
// are indexes of the statement's markers, in the order of the partition key. They are part of the result of PREPARE
// since version 4 of the protocol, and drivers compute the routing key from them. For PRIMARY KEY ((a, b), c) and WHERE
// b = ? AND a = ?, it is [1, 0]; for a = 1 AND b = ?, it is nothing, and the driver chooses any coordinator.
func PartitionKeyMarkers(t *schema.Table, markers []Marker) []uint16 {
	out := make([]uint16, len(t.PartitionKey))
	found := make([]bool, len(out))
	for i, m := range markers {
		// Column is set only if the marker is the whole value, so its bytes are a component of the key.
		if m.Column != nil && m.Column.Kind == schema.PartitionKey {
			out[m.Column.Position], found[m.Column.Position] = uint16(i), true
		}
	}
	for _, ok := range found {
		if !ok {
			return nil
		}
	}
	return out
}
