package storage

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Local keys of the node have table id 0, which no table has: first the engine's own keys, then those of other
// packages.
const (
	ownPrefix   = 0
	localPrefix = 1
)

// ownHeaderFlag is the prefix of the engine's own keys that store header flags.
const ownHeaderFlag = 'h'

// sweptKey is the local key of the position of the purger's pass:
//
//	time at which the last pass ended (seconds) 8, position
func sweptKey() []byte { return localKey([]byte("storage.swept")) }

// headerFlagKey returns the engine's own key for the flag of a table.
func headerFlagKey(id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(ownKey(ownHeaderFlag), uint32(id))
}

// loadHeaderFlags reads the flags when the engine is opened.
func (e *core) loadHeaderFlags() error {
	prefix := ownKey(ownHeaderFlag)
	return e.db.Scan(prefix, func(key, _ []byte) error {
		if len(key) != len(prefix)+rowkey.TableSize {
			return failure.BadKey(key)
		}
		e.headers.Load(schema.StorageID(binary.BigEndian.Uint32(key[len(prefix):])))
		return nil
	})
}

func ownKey(kind byte) []byte { return append(rowkey.AppendTable(nil, 0), ownPrefix, kind) }

func localKey(key []byte) []byte {
	return append(append(rowkey.AppendTable(nil, 0), localPrefix), key...)
}

// SetLocal sets a local value of this node, such as its identity or a hint. With sync it is on disk when SetLocal
// returns. A full disk refuses values of more than localAlwaysBytes.
func (e *Engine) SetLocal(key, value []byte, sync bool) error {
	// Short notes are accepted, because removing data needs them, and only removals free a full disk.
	if len(value) > localAlwaysBytes && e.disk.Full() {
		return failure.ErrDiskFull
	}
	return e.writeLocal(sync, func(o *pebble.WriteOptions) error { return e.db.Set(localKey(key), value, o) })
}

// DeleteLocal removes a local value of this node. A full disk does not refuse it.
func (e *Engine) DeleteLocal(key []byte, sync bool) error {
	return e.writeLocal(sync, func(o *pebble.WriteOptions) error { return e.db.Delete(localKey(key), o) })
}

func (e *core) writeLocal(sync bool, write func(*pebble.WriteOptions) error) (err error) {
	if err := e.db.Err(); err != nil {
		return err
	}
	defer e.db.Recover(&err)
	options := pebble.NoSync
	// Local values such as hints and marks follow the SyncMode of the engine.
	if sync && e.opts.Sync != SyncNone {
		options = pebble.Sync
	}
	if err := write(options); err != nil {
		return failure.Of(err)
	}
	return e.db.Err()
}

// GetLocal returns a local value of this node, or nil.
func (e *Engine) GetLocal(key []byte) ([]byte, error) {
	if err := e.db.Err(); err != nil {
		return nil, err
	}
	return e.db.Value(localKey(key))
}

// ScanLocal calls f with every local key that begins with prefix, in order, until f returns an error, which ScanLocal
// returns. Key and value are valid only during the call.
func (e *Engine) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	if err := e.db.Err(); err != nil {
		return err
	}
	// Callers know keys without the prefix of the engine.
	cut := len(localKey(nil))
	return e.db.Scan(localKey(prefix), func(key, value []byte) error { return f(key[cut:], value) })
}
