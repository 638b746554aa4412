package storage

import (
	"cqld/row"
	"cqld/storage/reading"
)

// Read appends the page for cmd to dst (see row/page.go). The page says that there is more if Limits.Rows, or the
// bound on a page's bytes, ended it, even if nothing follows, so that replicas with the same live data return the
// same bytes. A partition that ended by Limits.PerPartition does not count as more. A command without slices reads
// headers only.
func (e *Engine) Read(dst []byte, cmd *row.ReadCommand) (page []byte, err error) {
	page, _, err = e.reads.Read(dst, cmd)
	return page, err
}

// ReadCounted is Read, and counts what it reads.
func (e *Engine) ReadCounted(dst []byte, cmd *row.ReadCommand) (page []byte, n reading.Counted, err error) {
	return e.reads.Read(dst, cmd)
}

// Newest returns the newest timestamp (µs), in the partition cmd.Key, of the rows in cmd.Slices (in any order), of
// all deletions that affect them, and with StaticCounts of the static row. Deletions that can be purged but have not
// been count as well, because they still delete. It returns row.NoTimestamp if there is none. Other fields of the
// command are ignored.
func (e *Engine) Newest(cmd *row.ReadCommand) (newest int64, err error) { return e.reads.Newest(cmd) }

// Hash hashes the result of a read at cmd.Now, including tombstones, row by row. Replicas with the same content have
// the same hashes, regardless of collapses, compactions and purges. In mode tableinfo.GCRepair, data older than
// gc_grace does not count, repaired or not, because replicas do not purge it at the same time.
//
// leaf is called with hashes to be added to those of the parts. next is the key at which to continue, or nil at the
// end.
func (e *Engine) Hash(cmd *reading.HashCommand, leaf func(i int, h reading.LeafHash)) (next []byte, scanned int64,
	err error) {
	return e.reads.Hash(cmd, leaf)
}

// Sweep scans up to budget more entries and purges dead data among them. wrapped means that it has reached the end
// and will start again.
func (e *Engine) Sweep(budget int) (wrapped bool, err error) { return e.purger.Sweep(budget) }

// SweepDead purges up to budget entries of the partitions in which reads met many shadowed rows. done means that no
// such partition is left.
func (e *Engine) SweepDead(budget int) (done bool, err error) { return e.purger.SweepDead(budget) }
