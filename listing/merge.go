package listing

import (
	"bytes"
	"slices"

	"cqld/watermark"
)

// merge moves the watermark and adds the keys up to it to the result. It returns true if the result is complete.
func (s *keySequence) merge() (complete bool) {
	plan := &s.m.Plan
	to, from := plan.Reached(), plan.Mark()
	// The watermark has not moved, so no entry has become certain.
	if plan.Compare(to, from) <= 0 {
		return false
	}
	var keys [][]byte
	rest := 0
	// Entries of failed nodes count, too, because the returned keys exist.
	for _, n := range plan.Nodes() {
		i := 0
		for i < len(n.Entries) && plan.Compare(watermark.Position{Key: n.Entries[i]}, to) <= 0 {
			// A node that is slower than the quorum may return keys that the mark has passed.
			if plan.Compare(watermark.Position{Key: n.Entries[i]}, from) > 0 {
				keys = append(keys, n.Entries[i])
			}
			i++
		}
		// Entries after the watermark stay with their node: another node may still return smaller keys.
		n.Entries = n.Entries[i:]
		rest += len(n.Entries)
	}
	slices.SortFunc(keys, func(a, b []byte) int { return compareKeys(a, b, s.req.Reversed) })
	// The replicas of a partition all return its key.
	keys = slices.CompactFunc(keys, bytes.Equal)
	plan.SetMark(to)
	result := &s.result
	for _, key := range keys {
		// The mark goes back to the last key of the result, from which the next request continues. One key is returned
		// in every case, however long it is.
		if len(result.Keys) == s.limit || len(result.Keys) > 0 && s.bytes+len(key) > s.bound {
			result.More = true
			plan.SetMark(watermark.Position{Key: result.Keys[len(result.Keys)-1]})
			return true
		}
		result.Keys = append(result.Keys, key)
		s.bytes += len(key)
	}
	// Without further entries, and with all nodes at their end, nothing follows.
	result.More = to.Place != watermark.AfterAll || rest > 0
	return !result.More || len(result.Keys) == s.limit
}
