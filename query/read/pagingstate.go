package read

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strconv"

	"cqld/internal/wire"
	"cqld/query/mask"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// A paging state contains the position at which the next page begins. It is opaque to the client. Any node of the
// cluster, of this or a later version, can continue from it, and none accepts a forged one:
//
//	state := version table flags token key clustering given remaining | HMAC-SHA256, 16 bytes of it
//
// Clients could read masked key columns in it. If the table has any, the state is 2 followed by mask.Seal of the other
// form.
//
// Clusters that share a secret accept each other's states: ZDM's dual reads carry them from one cluster to another. The
// storage ids of their tables differ, so that such a state, with version 3 (or 4 if it is sealed), has in place of it a
// hash of the table's name and of the types and orders of its key columns, which determine the meaning of a position.
const (
	// Versions are the first byte of a state. A new form of states needs a new one, and old ones must be decoded as
	// long as clients may hold them across an upgrade.
	stateVersion      = 1
	stateSealed       = 2
	stateShared       = 3
	stateSharedSealed = 4
	// Bytes of the authentication code and of the hash of a table's name and key.
	stateMACBytes  = 16
	stateNameBytes = 16

	// Bits of flags. iota is 6 here, so the bits are 1<<6 and 1<<7; they are part of the format.
	stateStarted = 1 << iota
	stateDone
)

// pagingState is a decoded paging state. It is the position after the last row of a page.
type pagingState struct {
	At        scan.Position
	Remaining uint32 // of LIMIT; 0 means no limit
}

// pagingKeys authenticate states. The slices are not changed. Cluster is never empty in a cluster; only tests have an
// empty one.
type pagingKeys struct {
	Cluster []byte // the secret of this cluster
	Shared  []byte // sharedPagingKey of the secret that several clusters share; empty means that there is none
}

// sharedPagingKey derives the key of shared states from a secret, so that the secret has no other use. It is nil
// without one. An empty secret means that states are not shared.
func sharedPagingKey(secret []byte) []byte {
	if len(secret) == 0 {
		return nil
	}
	h := hmac.New(sha256.New, secret)
	// Another use of the secret would write another label.
	h.Write([]byte("cqld paging states"))
	return h.Sum(nil)
}

// errPagingState is the error of a state that was not made with the same key for the same table. It is deliberately
// without a reason: a client could test forged states with it.
var errPagingState = errors.New("paging: invalid state")

// appendPagingState appends the encoding of a state of a table. keys authenticate it, and encrypt it if key columns are
// masked. A state is made with the shared key if there is one, so that all clusters accept it. The result shares no
// memory with s.
func appendPagingState(dst []byte, keys pagingKeys, table *schema.Table, s *pagingState) []byte {
	start := len(dst)
	key, seal := keys.Cluster, byte(stateSealed)
	if len(keys.Shared) > 0 {
		key, seal = keys.Shared, stateSharedSealed
		dst = append(append(dst, stateShared), stateNameOf(table)...)
	} else {
		dst = wire.AppendUvarint(append(dst, stateVersion), uint64(table.StorageID))
	}
	var flags byte
	if s.At.Inside {
		flags |= stateStarted
	}
	if s.At.Done {
		flags |= stateDone
	}
	dst = append(dst, flags)
	dst = wire.AppendInt64(dst, int64(s.At.Key.Token))
	dst = append(wire.AppendUvarint(dst, uint64(len(s.At.Key.Bytes))), s.At.Key.Bytes...)
	dst = append(wire.AppendUvarint(dst, uint64(len(s.At.Clustering))), s.At.Clustering...)
	dst = wire.AppendUvarint(dst, uint64(s.At.Given))
	dst = wire.AppendUvarint(dst, uint64(s.Remaining))
	// Of everything before it, including the version.
	dst = append(dst, stateMAC(key, dst[start:])...)
	if mask.Keys(table) {
		// Sealed into new memory, because the plain form is read for it.
		return append(append(dst[:start:start], seal), mask.Seal(key, dst[start:])...)
	}
	return dst
}

// stateNameOf identifies a table in all clusters. Equal hashes mean that positions in the tables have the same meaning.
// A change of the types of the key, or of their order, changes the hash. Other columns do not matter: a position
// consists of key and clustering.
func stateNameOf(table *schema.Table) []byte {
	var b []byte
	// With its length, so that different names never give one input.
	add := func(text string) { b = append(wire.AppendUvarint(b, uint64(len(text))), text...) }
	add(table.Keyspace)
	add(table.Name)
	for _, columns := range [][]*schema.Column{table.PartitionKey, table.Clustering} {
		b = wire.AppendUvarint(b, uint64(len(columns)))
		for _, c := range columns {
			add(c.Type.String())
			add(strconv.FormatBool(c.Desc))
		}
	}
	sum := sha256.Sum256(b)
	return sum[:stateNameBytes]
}

// stateMAC returns the authentication code of a state. 128 bits suffice: a forger has to try them against a server.
func stateMAC(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)[:stateMACBytes]
}

// decodePagingState returns the state that b encodes, or errPagingState. The state shares no memory with b. With a
// shared secret, decodePagingState still accepts states of this cluster, so that a query continues when the secret is
// introduced. Nothing of b is interpreted before its code is verified. All variable parts are copied, because b belongs
// to the frame of the request.
func decodePagingState(b []byte, keys pagingKeys, table *schema.Table) (*pagingState, error) {
	if len(b) == 0 {
		return nil, errPagingState
	}
	key, plain := keys.Cluster, byte(stateVersion)
	if b[0] == stateShared || b[0] == stateSharedSealed {
		if len(keys.Shared) == 0 {
			return nil, errPagingState
		}
		key, plain = keys.Shared, stateShared
	}
	// The form inside the seal is a complete plain state, with its own code.
	if b[0] == stateSealed || b[0] == stateSharedSealed {
		opened, err := mask.Open(key, b[1:])
		if err != nil {
			return nil, errPagingState
		}
		// Authenticated by the seal, and again below.
		b = opened
	}
	// plain is the only version that may be here: a plain state of one key cannot pass for one of another key.
	n := len(b) - stateMACBytes
	if n < 1 || b[0] != plain || !hmac.Equal(b[n:], stateMAC(key, b[:n])) {
		return nil, errPagingState
	}
	c := wire.NewCursor(b[1:n])
	if plain == stateShared {
		if !bytes.Equal(c.Take(stateNameBytes), stateNameOf(table)) {
			return nil, errPagingState
		}
	} else if schema.StorageID(c.Uvarint()) != table.StorageID {
		return nil, errPagingState
	}
	flags := c.Uint8()
	s := &pagingState{}
	s.At.Inside, s.At.Done = flags&stateStarted != 0, flags&stateDone != 0
	// A page ends inside a partition after a row of the result.
	s.At.Live = s.At.Inside
	s.At.Key = row.PartitionKey{Token: ring.Token(c.Int64()), Bytes: append([]byte{}, c.Take(c.Count(1))...)}
	s.At.Clustering = append([]byte{}, c.Take(c.Count(1))...)
	s.At.Given = uint32(c.Uvarint())
	s.Remaining = uint32(c.Uvarint())
	// Trailing bytes are an error as well as missing ones.
	if c.Finish() != nil {
		return nil, errPagingState
	}
	return s, nil
}
