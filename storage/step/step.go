// Package step moves iterators of Pebble with a few steps instead of a seek, if the wanted key is near.
//
//	To:      ● ● ● ●▶ key             at most 4 steps, or one seek
//	Before:            key ◀● ● ● ●
package step

import (
	"bytes"

	"cqld/internal/invariant"

	"github.com/cockroachdb/pebble/v2"
)

// most is the number of entries over which an iterator steps before it seeks: a seek costs as much as some ten steps,
// and the entry that a read wants is nearly always the next one, or otherwise far away.
const most = 4

// To moves an iterator to the first key that is not less than key. No key between that one and the iterator's present
// position may have been passed, and an iterator that is valid must not have been moved by SeekPrefixGE. The result is
// iter.Valid. Bytes of key must not change during the call.
func To(iter *pebble.Iterator, key []byte) bool {
	valid := iter.Valid()
	for steps := 0; valid; steps++ {
		if bytes.Compare(iter.Key(), key) >= 0 {
			return true
		}
		// The key is farther away: a seek costs less than the steps that may remain.
		if steps == most {
			break
		}
		valid = iter.Next()
	}
	valid = iter.SeekGE(key)
	// SeekGE respects bounds, and must never return a smaller key, or the caller would read a row twice.
	invariant.Check(!valid || !invariant.Enabled || bytes.Compare(iter.Key(), key) >= 0, "step: a seek went backwards")
	return valid
}

// Before moves an iterator to the last key that is less than key. The requirements of To apply here, too. The
// iterator may be on either side of the key.
func Before(iter *pebble.Iterator, key []byte) bool {
	valid := iter.Valid()
	for steps := 0; valid && steps < most; steps++ {
		if bytes.Compare(iter.Key(), key) < 0 {
			valid = iter.Next()
			continue
		}
		// The position is at or after the key, so only steps back are needed from here on.
		for ; valid && steps < most; steps++ {
			if valid = iter.Prev(); valid && bytes.Compare(iter.Key(), key) < 0 {
				return true
			}
		}
	}
	valid = iter.SeekLT(key)
	invariant.Check(!valid || !invariant.Enabled || bytes.Compare(iter.Key(), key) < 0, "step: a seek went forwards")
	return valid
}
