// Package blockfilter lets reads of one partition skip the blocks of a file that have no key of it. Pebble's bloom
// filters answer for whole keys only; a search in a partition that does not exist would read the block in which it
// would be.
//
// Each block has a bloom filter of its partitions as a block property, which Pebble keeps in the index of the file. A
// filter depends on the partition in the keys only: if a block with a tombstone of a key is skipped, every block with
// an older version of that key is skipped, too, so no deleted version appears. Files without the property are read as
// before.
package blockfilter

import (
	"bytes"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// name is the name of the property in files. Another encoding needs another name.
const name = "cqld.partitions.1"

const (
	// bitsPerPartition and probes give a wrong answer for 1 of 100 absent partitions, as the filters of whole keys do.
	bitsPerPartition = 10
	probes           = 6
)

// hash returns a hash of a partition. Tokens in a block are adjacent, so that their high bits are equal.
func hash(table schema.StorageID, token ring.Token) uint64 {
	h := uint64(token) ^ uint64(table)<<32
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// position returns the bit of the filter that a probe of a hash tests.
func position(h uint64, probe, size int) uint64 {
	at, _ := bits.Mul64(h+uint64(probe)*(h<<32|h>>32|1), uint64(size)*8)
	return at
}

// Collector collects the partitions of blocks of a file that is written. It implements pebble.BlockPropertyCollector.
type Collector struct {
	hashes []uint64 // of the partitions in the block
	last   []byte   // the last partition in the block
	// open means that the block gets no filter, because it has keys that are not found by their partition: the node's
	// own, and rows of tables without clustering columns, for which the filters of whole keys suffice.
	open bool
}

// NewCollector returns a collector for a file.
func NewCollector() pebble.BlockPropertyCollector { return new(Collector) }

// Name implements pebble.BlockPropertyCollector.
func (*Collector) Name() string { return name }

// AddPointKey implements pebble.BlockPropertyCollector.
func (c *Collector) AddPointKey(key pebble.InternalKey, _ []byte) error {
	if c.open {
		return nil
	}
	table, k, suffix, err := rowkey.Parse(key.UserKey)
	if err != nil || table == 0 || len(suffix) == 1 && row.EntryKind(suffix[0]) == row.KindRow {
		c.open = true // also for a malformed key, which reads report
		return nil
	}
	partition := key.UserKey[:len(key.UserKey)-len(suffix)]
	if len(c.hashes) > 0 && bytes.Equal(partition, c.last) {
		return nil
	}
	c.last = append(c.last[:0], partition...)
	c.hashes = append(c.hashes, hash(table, k.Token))
	return nil
}

// AddRangeKeys implements pebble.BlockPropertyCollector.
func (*Collector) AddRangeKeys(sstable.Span) error { return nil }

// AddCollectedWithSuffixReplacement implements pebble.BlockPropertyCollector.
func (*Collector) AddCollectedWithSuffixReplacement(_, _, _ []byte) error { return nil }

// SupportsSuffixReplacement implements pebble.BlockPropertyCollector.
func (*Collector) SupportsSuffixReplacement() bool { return false }

// FinishDataBlock implements pebble.BlockPropertyCollector. An empty property means that the block has no filter.
func (c *Collector) FinishDataBlock(buf []byte) ([]byte, error) {
	if !c.open && len(c.hashes) > 0 {
		start, size := len(buf), (len(c.hashes)*bitsPerPartition+7)/8
		buf = append(buf, make([]byte, size)...)
		for _, h := range c.hashes {
			for probe := range probes {
				at := position(h, probe, size)
				buf[start+int(at/8)] |= 1 << (at % 8)
			}
		}
	}
	c.hashes, c.open = c.hashes[:0], false
	return buf, nil
}

// AddPrevDataBlockToIndexBlock implements pebble.BlockPropertyCollector.
func (*Collector) AddPrevDataBlockToIndexBlock() {}

// FinishIndexBlock implements pebble.BlockPropertyCollector.
func (*Collector) FinishIndexBlock(buf []byte) ([]byte, error) { return buf, nil }

// FinishTable implements pebble.BlockPropertyCollector.
func (*Collector) FinishTable(buf []byte) ([]byte, error) { return buf, nil }

// Filter skips blocks without keys of one partition. It implements pebble.BlockPropertyFilter. The iterator that uses
// it shows an undefined part of other partitions.
type Filter struct{ hash uint64 }

// Partition sets the partition.
func (f *Filter) Partition(table schema.StorageID, token ring.Token) { f.hash = hash(table, token) }

// Name implements pebble.BlockPropertyFilter.
func (*Filter) Name() string { return name }

// Intersects implements pebble.BlockPropertyFilter: it reports whether a block may have keys of the partition.
func (f *Filter) Intersects(prop []byte) (bool, error) {
	if len(prop) == 0 {
		return true, nil
	}
	for probe := range probes {
		if at := position(f.hash, probe, len(prop)); prop[at/8]&(1<<(at%8)) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// SyntheticSuffixIntersects implements pebble.BlockPropertyFilter.
func (*Filter) SyntheticSuffixIntersects([]byte, []byte) (bool, error) { return true, nil }
