package reading

import (
	"cqld/row"
	"cqld/schema"
	"cqld/storage/rowcache"
	"cqld/storage/rowkey"
)

// cached is the state of a read of one row by its whole key, for which the cache of rows is searched first. All other
// reads use the iterator only: the entries of a page must belong to one state of the partition, and their rows cost
// more than an iterator.
type cached struct {
	adds *rowcache.Cache // to which the read adds what it finds in the database; nil if it does not
	mark rowcache.Mark
	// hit means that the row was found in the cache, and so was the header if the table has any. There is no iterator.
	hit           bool
	present       bool   // the row exists; value is its stored form
	headerPresent bool   // so does the header; its stored form follows value in found
	value         []byte // a part of found
	found         []byte // reused
}

// cacheable reports whether a command reads one row that may be in the cache.
func cacheable(cmd *row.ReadCommand) bool {
	return len(cmd.Slices) == 1 && cmd.Slices[0].Exact() && cmd.Table >= schema.FirstStorageID &&
		len(cmd.Key.Bytes) <= rowkey.PartitionBytesMax
}

// search looks for the row of a command in the cache, and for the header of its partition if the table has any, by
// their keys. If it returns false, the read continues with an iterator, and adds what it finds.
func (c *cached) search(o *Options, cmd *row.ReadCommand, key, header []byte) bool {
	c.adds, c.mark = o.Rows, o.Rows.Mark(cmd.Table, cmd.Key.Token)
	var ok bool
	if c.found, ok, c.present = o.Rows.Get(c.found[:0], &c.mark, key); !ok {
		return false
	}
	n := len(c.found)
	// The flag is checked after the row was found, as it is after an iterator was created: see headers.Flags.
	if c.headerPresent = false; o.Headers.Has(cmd.Table) {
		if c.found, ok, c.headerPresent = o.Rows.Get(c.found, &c.mark, header); !ok {
			return false
		}
	}
	// A write may have changed the header and the row between the two searches.
	if !c.mark.Unchanged() {
		return false
	}
	c.value = c.found[:n]
	c.adds, c.hit = nil, true
	return true
}

// add adds an entry that was found in the database to the cache, if the read may.
func (c *cached) add(key, value []byte) {
	if c.adds != nil {
		c.adds.Add(&c.mark, key, value, true)
	}
}

// addAbsent adds a key that the database does not have, if the read may. err is the error of the iterator, which looks
// the same if it has failed.
func (c *cached) addAbsent(key []byte, err error) {
	if c.adds != nil && err == nil {
		c.adds.Add(&c.mark, key, nil, false)
	}
}
