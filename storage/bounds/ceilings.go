package bounds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// Ceilings are keys without values, so that the order in which concurrent commits write them does not matter: the
// greatest ceiling of a table is valid. The key with table 0 is written with each: it says that tables without a
// ceiling have no rows. Rows in a directory without that key were written by a version without ceilings.
//
//	prefix │ table 4 │ ceiling 8
func (b *Bounds) key(id schema.StorageID, ceiling int64) []byte {
	key := binary.BigEndian.AppendUint32(append([]byte{}, b.Prefix...), uint32(id))
	return binary.BigEndian.AppendUint64(key, uint64(ceiling))
}

// Raised contains the ceilings that a batch raises.
type Raised []raised

type raised struct {
	table   *table
	ceiling int64
}

// Committed records that the batch was committed.
func (r Raised) Committed() {
	for _, x := range r {
		raise(&x.table.ceiling, x.ceiling)
		invariant.Check(x.table.ceiling.Load() >= x.ceiling, "bounds: a committed ceiling is not in effect")
	}
}

// Raise adds to a batch the ceilings for the rows of tables that were noted, as far as present ceilings do not suffice.
func (b *Bounds) Raise(batch *pebble.Batch, tables ...schema.StorageID) (out Raised, err error) {
	for _, id := range tables {
		t := b.table(id)
		stored, required := t.required(b.Slack)
		if required == stored {
			continue
		}
		// Invariant 3: a ceiling that falls would hide rows that are newer than it.
		invariant.Check(required > stored, "bounds: the ceiling of table %d falls from %d to %d", id, stored, required)
		err = errors.Join(err, batch.Set(b.key(0, 0), nil, nil), batch.Set(b.key(id, required), nil, nil))
		if stored > 0 {
			err = errors.Join(err, batch.Delete(b.key(id, stored), nil))
		}
		out = append(out, raised{t, required})
	}
	return out, err
}

// Load loads the ceilings of a database. If rows were written without ceilings, it makes the bounds of all tables
// that have rows infinite, permanently, and adds the necessary entries to batch. A *rowkey.Malformed error means that
// a key is corrupt. Load must be called before other methods.
func (b *Bounds) Load(db *pebble.DB, batch *pebble.Batch) (err error) {
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: b.Prefix, UpperBound: rowkey.PrefixEnd(b.Prefix)})
	if err != nil {
		return err
	}
	marked := false
	for valid := iter.First(); valid && err == nil; valid = iter.Next() {
		key := iter.Key()[len(b.Prefix):]
		if len(key) != 12 {
			err = &rowkey.Malformed{Key: bytes.Clone(iter.Key())}
		} else if id := schema.StorageID(binary.BigEndian.Uint32(key)); id != 0 {
			b.table(id).open(int64(binary.BigEndian.Uint64(key[4:])))
		} else {
			marked = true
		}
	}
	if err = errors.Join(err, iter.Error(), iter.Close()); err != nil || marked {
		return err
	}
	return b.openUnbounded(db, batch)
}

// openUnbounded makes the bounds of all tables that have rows infinite.
func (b *Bounds) openUnbounded(db *pebble.DB, batch *pebble.Batch) error {
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: rowkey.AppendTable(nil, 1)})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid && err == nil; {
		if len(iter.Key()) < rowkey.TableSize {
			err = &rowkey.Malformed{Key: bytes.Clone(iter.Key())}
			break
		}
		id := rowkey.TableOf(iter.Key())
		b.table(id).open(math.MaxInt64)
		err = errors.Join(batch.Set(b.key(0, 0), nil, nil), batch.Set(b.key(id, math.MaxInt64), nil, nil))
		valid = iter.SeekGE(rowkey.AppendTableEnd(nil, id))
	}
	if err = errors.Join(err, iter.Error(), iter.Close()); err != nil {
		// A corrupt file with rows must not keep a node from starting. The next start tries again.
		b.unknown = true
		batch.Reset()
	}
	return nil
}
