package rowcache

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"cqld/internal/invariant"
)

// shard has a part of the entries, under one lock. Entries are in segments of bytes without pointers, so that the
// garbage collector does not visit them:
//
//	segment   entry │ entry │ … │ free
//	entry     size 4 │ cleared 4 │ hash 8 │ key size 2 │ flags 2 │ key │ value
//
// When the current segment is full, the oldest one becomes the current one: entries that were found since they were
// written stay, the others are dropped. An entry whose key was removed stays as unused bytes until then.
type shard struct {
	mu       sync.Mutex
	index    map[uint64]place
	segments [segments][]byte // nil until it is used; the length is what is filled
	size     int              // of a segment
	current  int
	most     int          // entries
	count    atomic.Int64 // of entries in the index; changed with the lock
	// seen has a bit for each hash that was missing since it was cleared. A full shard adds an entry when it is
	// missing for the second time, so that rows that are read once do not replace others.
	seen    []uint64
	seenNow int // bits that are set

	hits, misses, added, removed int64
}

// place is the position of an entry.
type place struct{ segment, offset uint32 }

const (
	headSize  = 20
	clearedAt = 4
	hashAt    = 8
	keySizeAt = 16
	flagsAt   = 18
)

// The flags of an entry.
const (
	isPresent = 1 << iota // the database has the key
	isFound               // the entry was found since it was written, or since its segment was reclaimed
)

// init sets the size of an empty shard.
func (s *shard) init(size int) {
	s.most = max(1, size/indexShare/indexBytes)
	s.size = (size - size/indexShare) / segments
	s.index = map[uint64]place{}
	s.seen = make([]uint64, max(1, s.most/16)) // four bits for each entry
}

// fits reports whether an entry may be added: a segment holds several.
func (s *shard) fits(key, value int) bool {
	n := headSize + key + value
	return n <= s.size/4 && n <= entryBytesMax
}

// get appends the value of a key to dst.
func (s *shard) get(dst []byte, hash uint64, cleared uint32, key []byte) (value []byte, found, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(hash, key); e != nil && binary.LittleEndian.Uint32(e[clearedAt:]) == cleared {
		s.hits++
		e[flagsAt] |= isFound
		return append(dst, e[headSize+len(key):]...), true, e[flagsAt]&isPresent != 0
	}
	s.misses++
	return dst, false, false
}

// entry returns the entry of a key, or nil.
func (s *shard) entry(hash uint64, key []byte) []byte {
	at, ok := s.index[hash]
	if !ok {
		return nil
	}
	e := entryAt(s.segments[at.segment], int(at.offset))
	if n := int(binary.LittleEndian.Uint16(e[keySizeAt:])); n != len(key) ||
		!bytes.Equal(e[headSize:headSize+n], key) {
		return nil // another key with the same hash
	}
	return e
}

// entryAt returns the entry that begins at an offset.
func entryAt(segment []byte, offset int) []byte {
	n := int(binary.LittleEndian.Uint32(segment[offset:]))
	invariant.Check(n >= headSize && offset+n <= len(segment), "rowcache: an entry exceeds its segment")
	return segment[offset : offset+n : offset+n]
}

// admit reports whether a key that was missing may be added.
func (s *shard) admit(hash uint64) bool {
	// Until the last segment is in use, nothing is replaced.
	if s.segments[segments-1] == nil && int(s.count.Load()) < s.most {
		return true
	}
	bit := hash >> 8 % uint64(64*len(s.seen))
	if s.seen[bit/64]&(1<<(bit%64)) != 0 {
		return true
	}
	// Half of the bits at most are set, so that a key that was never missing is rarely taken for one that was.
	if s.seenNow++; s.seenNow > 32*len(s.seen) {
		clear(s.seen)
		s.seenNow = 1
	}
	s.seen[bit/64] |= 1 << (bit % 64)
	return false
}

// put writes an entry. It replaces the one with the same hash.
func (s *shard) put(hash uint64, cleared uint32, key, value []byte, present bool) {
	n := headSize + len(key) + len(value)
	delete(s.index, hash)
	s.makeRoom(n)
	segment := s.segments[s.current]
	at := len(segment)
	segment = binary.LittleEndian.AppendUint32(segment, uint32(n))
	segment = binary.LittleEndian.AppendUint32(segment, cleared)
	segment = binary.LittleEndian.AppendUint64(segment, hash)
	segment = binary.LittleEndian.AppendUint16(segment, uint16(len(key)))
	flags := uint16(0)
	if present {
		flags = isPresent
	}
	segment = binary.LittleEndian.AppendUint16(segment, flags)
	segment = append(append(segment, key...), value...)
	invariant.Check(len(segment) == at+n && len(segment) <= s.size, "rowcache: an entry has another size")
	s.segments[s.current] = segment
	s.index[hash] = place{uint32(s.current), uint32(at)}
	s.added++
}

// makeRoom makes a segment with n free bytes the current one.
func (s *shard) makeRoom(n int) {
	if s.segments[s.current] == nil {
		s.segments[s.current] = make([]byte, 0, s.size)
	}
	for len(s.segments[s.current])+n > s.size || len(s.index) >= s.most {
		s.current = (s.current + 1) % segments
		if s.segments[s.current] == nil {
			// The entries may be many and small: a new segment adds room, but no place in the index.
			if s.segments[s.current] = make([]byte, 0, s.size); len(s.index) < s.most {
				continue
			}
		}
		s.reclaim(s.current)
	}
}

// reclaim drops the entries of a segment that were not found since it was written or reclaimed, and moves the others to
// its beginning. They keep at most half of it, so that there is always room for new ones.
func (s *shard) reclaim(i int) {
	segment := s.segments[i]
	kept := segment[:0]
	for at := 0; at < len(segment); {
		e := entryAt(segment, at)
		size, hash := len(e), binary.LittleEndian.Uint64(e[hashAt:])
		if in, ok := s.index[hash]; ok && in == (place{uint32(i), uint32(at)}) {
			if e[flagsAt]&isFound != 0 && len(kept)+size <= s.size/2 {
				e[flagsAt] &^= isFound
				s.index[hash] = place{uint32(i), uint32(len(kept))}
				// The destination precedes the entry, and append copies as memmove does.
				kept = append(kept, e...)
			} else {
				delete(s.index, hash)
			}
		}
		at += size
	}
	s.segments[i] = kept
}

// remove removes a key.
func (s *shard) remove(hash uint64, key []byte) {
	// See Add: if it compares the counters after the write began, it adds nothing; otherwise count shows its entry.
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entry(hash, key) != nil {
		delete(s.index, hash)
		s.count.Store(int64(len(s.index)))
		s.removed++
	}
}

// addTo adds the figures of the shard.
func (s *shard) addTo(sum *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Entries += int64(len(s.index))
	for _, segment := range s.segments {
		sum.Bytes += int64(cap(segment))
	}
	sum.Bytes += int64(len(s.index)*indexBytes + 8*len(s.seen))
	sum.Hits, sum.Misses = sum.Hits+s.hits, sum.Misses+s.misses
	sum.Added, sum.Removed = sum.Added+s.added, sum.Removed+s.removed
}
