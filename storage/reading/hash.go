package reading

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
	"cqld/storage/step"
	"cqld/storage/tableinfo"
)

// HashCommand requests hashes of the contents of a table in a range of tokens, which does not wrap. A hash of a large
// range is made in steps, so that no iterator stays open for long. BytesMax counts stored keys and values.
type HashCommand struct {
	Table  schema.StorageID
	Tokens ring.Range
	Leaves int    // number of parts of Tokens, each with its own hash
	Now    int64  // seconds; must be the same for every replica
	After  []byte // the key at which the previous step ended; nil at first
	// BytesMax ends the step after about this many bytes. It is checked after each row, so one large row exceeds it.
	BytesMax int64
}

// LeafHash is the hash of one part of a range. It is a sum over rows: the hashes of several steps are added, in any
// order. Two parts with equal hashes are taken as equal by repair; 128 bits of the digests are compared.
type LeafHash struct {
	// Sum adds the digests of rows, each as two numbers, modulo 2^64. Addition commutes, so neither the steps nor
	// their order changes the sum.
	Sum  [2]uint64
	Rows uint64 // including headers
}

// Add adds the hash of another part.
func (h *LeafHash) Add(o LeafHash) {
	h.Sum[0] += o.Sum[0]
	h.Sum[1] += o.Sum[1]
	h.Rows += o.Rows
}

// Hash hashes the result of a read at cmd.Now, including tombstones, row by row. Replicas with the same content have
// the same hashes, regardless of collapses, compactions and purges. In mode tableinfo.GCRepair, data older than
// gc_grace does not count, repaired or not, because replicas do not purge it at the same time.
//
// leaf is called with hashes to be added to those of the parts. next is the key at which to continue, or nil at the
// end. scanned is the number of bytes that were read. Errors wrap failure.ErrInvalid for a command that cannot be
// executed. The caller adds what leaf receives, as a part may come in several steps.
func (e *Reads) Hash(cmd *HashCommand, leaf func(i int, h LeafHash)) (next []byte, scanned int64, err error) {
	if err := e.opts.DB.Err(); err != nil {
		return nil, 0, err
	}
	if cmd.Tokens.Wraps() || cmd.Leaves <= 0 || cmd.Tokens.Start == cmd.Tokens.End {
		return nil, 0, fmt.Errorf("%w: hash of %v in %d parts", failure.ErrInvalid, cmd.Tokens, cmd.Leaves)
	}
	h := &hasher{cmd: cmd, leaf: leaf}
	h.e, h.cmd = e, cmd
	// Repair is set, so that ranges that may be lost are hashed, and no number of tombstones ends the read.
	h.reader.cmd = &row.ReadCommand{Table: cmd.Table, Range: row.KeyRange{Tokens: cmd.Tokens},
		Slices: []row.Slice{row.AllRows()}, Now: cmd.Now, Repair: new(row.Repair)}
	h.info = e.opts.Table(cmd.Table)
	h.empty.Reset()
	// Only data that replicas purge at the same time may be compared. Whether a range was repaired differs between them
	// for a while; gc_grace does not.
	if h.info.GC == tableinfo.GCRepair {
		h.info.GC = tableinfo.GCTimeout
	}
	err = h.run()
	// The iterator is closed even after an error, because an open iterator keeps files.
	if h.iter != nil {
		e.CountSeeks(h.iter)
		err = errors.Join(err, h.iter.Close())
	}
	if err != nil {
		return nil, h.scanned, failure.Of(err)
	}
	return h.next, h.scanned, e.opts.DB.Err()
}

// hasher is the state of one Hash: a reader that hashes rows instead of writing them into a page. It embeds a reader
// for the position, the header and the deletions; the page of the reader stays empty.
type hasher struct {
	reader
	cmd     *HashCommand
	leaf    func(int, LeafHash)
	scanned int64
	next    []byte
	sum     LeafHash // of the partition
	buffer  []byte
	// buffer contains the bytes to be hashed, encoded a canonical row. Both are reused.
	encoded []byte
}

// run hashes partitions until the range ends or the step has scanned enough.
func (h *hasher) run() error {
	if !h.boundRange(h.cmd.Tokens) {
		return nil
	}
	if err := h.open(); err != nil {
		return err
	}
	valid := false
	if h.cmd.After == nil {
		valid = h.iter.First()
	} else {
		_, _, suffix, err := rowkey.Parse(h.cmd.After)
		if err != nil {
			return fmt.Errorf("%w: %w", failure.ErrInvalid, err)
		}
		// If the previous step ended within a partition, its header is read again, but not hashed. The header is needed
		// to shadow the rows that follow.
		valid = h.iter.SeekGE(h.cmd.After[:len(h.cmd.After)-len(suffix)])
	}
	for valid && h.next == nil {
		if err := h.partition(); err != nil {
			return err
		}
		// A partition without hashed entries does not change the sums.
		if h.sum.Rows > 0 {
			// A partition is in one part as a whole, because all its rows have its token.
			part := h.cmd.Tokens.PartOf(h.key.Token, h.cmd.Leaves)
			// With the hash in a wrong leaf, repair would copy the wrong range.
			invariant.Check(part >= 0 && part < h.cmd.Leaves, "reading: a partition is in no part of the range")
			h.leaf(part, h.sum)
		}
		h.seek = append(append(h.seek[:0], h.prefix...), rowkey.KindEnd)
		valid = h.next == nil && step.To(h.iter, h.seek)
	}
	return h.iter.Error()
}

// partition hashes the partition at the iterator, or the rest of it.
func (h *hasher) partition() error {
	_, key, suffix, err := rowkey.Parse(h.iter.Key())
	if err != nil {
		return err
	}
	// The prefix is copied, because the iterator moves on while the partition is hashed.
	h.prefix = append(h.prefix[:0], h.iter.Key()[:len(h.iter.Key())-len(suffix)]...)
	key.Bytes = h.prefix[rowkey.FixedSize:]
	h.beginPartition(key)
	h.sum = LeafHash{}
	resumed := h.cmd.After != nil && bytes.HasPrefix(h.cmd.After, h.prefix)
	if row.EntryKind(suffix[0]) == row.KindHeader {
		if err := h.readHeader(h.iter.ValueAndErr()); err != nil {
			return err
		}
		if !resumed {
			h.hashHeader()
		}
	}
	start := append(append(h.seek[:0], h.prefix...), byte(row.KindRow))
	if resumed && bytes.Compare(h.cmd.After, start) >= 0 {
		// The key of After was hashed; the zero byte makes the next key the first one.
		start = append(append(start[:0], h.cmd.After...), 0)
	}
	h.seek = start
	for valid := step.To(h.iter, start); valid && bytes.HasPrefix(h.iter.Key(), h.prefix); valid = h.iter.Next() {
		if err := h.row(h.iter.Key()[len(h.prefix)+1:]); err != nil {
			return err
		}
		if h.scanned >= h.cmd.BytesMax {
			h.next = bytes.Clone(h.iter.Key())
			// The next step continues after this key: one that does not advance would repeat forever.
			invariant.Check(bytes.Compare(h.cmd.After, h.next) < 0, "reading: a step of a hash made no progress")
			return nil
		}
	}
	return h.iter.Error()
}

// hashHeader hashes the parts of the partition that a page contains besides rows. The form of the bytes is the same on
// all nodes, and changing it would make every range differ during an upgrade.
func (h *hasher) hashHeader() {
	// The header is counted even if nothing is hashed, because it was read.
	h.scanned += int64(len(h.header) + len(h.prefix))
	if h.shown.Empty && len(h.shownRT) == 0 {
		return
	}
	// The key without the table, which the command names.
	b := append(append(h.buffer[:0], h.prefix[rowkey.TableSize:]...), byte(row.KindHeader))
	b = append(b, h.header...)
	for _, t := range h.shownRT {
		// The bounds are escaped, so that two different tombstones never form the same bytes.
		b = rowkey.AppendEscaped(rowkey.AppendEscaped(b, t.Start), t.End)
		b = binary.BigEndian.AppendUint64(b, uint64(t.Deletion.Timestamp))
		b = binary.BigEndian.AppendUint64(b, uint64(t.Deletion.LocalTime))
	}
	h.add(b)
}

// row hashes one row as a page would contain it.
func (h *hasher) row(clustering []byte) error {
	value, err := h.iter.ValueAndErr()
	if err != nil {
		return err
	}
	h.scanned += int64(len(value) + len(h.prefix) + len(clustering))
	deletion := h.deletion
	if len(h.deletions) > 0 {
		deletion = deletion.Max(row.DeletionAt(h.deletions, clustering))
	}
	// Most rows neither expire nor are deleted: their stored bytes are canonical.
	if deletion.Present() || !row.Immortal(value) {
		canonical, err := h.canonicalRow(value, deletion)
		if canonical == nil || err != nil {
			return err
		}
		value = canonical
	}
	b := append(append(h.buffer[:0], h.prefix[rowkey.TableSize:]...), byte(row.KindRow))
	b = append(rowkey.AppendEscaped(b, clustering), value...)
	h.add(b)
	return nil
}

// canonicalRow returns a row's value without deleted and purged parts, or nil if nothing is left. The result is value
// itself, or memory that the next call overwrites.
func (h *hasher) canonicalRow(value []byte, deletion row.Deletion) ([]byte, error) {
	sum, err := row.Summarize(value, h.cmd.Now)
	switch {
	case err != nil:
		return nil, h.badValue(err)
	case sum.Empty:
		return nil, nil
	// As in readMortalRow, no part of the row is shadowed or purged.
	case !sum.Deletes && sum.TimestampMin > deletion.Timestamp && sum.LocalTimeMin >= h.gcBefore:
		return value, nil
	}
	// The same function makes the rows of pages, so equal pages have equal hashes.
	left, _, empty, err := h.stream.Canonical(h.encoded[:0], value, deletion, h.gcBefore, h.cmd.Now)
	if err != nil {
		return nil, h.badValue(err)
	}
	if h.encoded = left; empty {
		return nil, nil
	}
	return h.encoded, nil
}

// add adds the hash of an entry to the partition, and keeps the memory of b.
func (h *hasher) add(b []byte) {
	h.buffer = b
	d := row.DigestOf(b)
	h.sum.Add(LeafHash{Rows: 1, Sum: [2]uint64{binary.BigEndian.Uint64(d[:8]), binary.BigEndian.Uint64(d[8:])}})
}
