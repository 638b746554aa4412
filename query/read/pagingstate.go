package read

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
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
// cluster with this or a later version can continue from it, and rejects a forged one:
//
//	state := version table flags token key clustering given remaining | HMAC-SHA256, 16 bytes of it
//
// Clients could read masked key columns in a plain state. If the table has masked key columns, the state is the
// version 2, followed by the plain state encrypted with mask.Seal.
//
// Clusters that share a secret accept each other's states: ZDM's dual reads carry them from one cluster to another.
// The ids of the tables differ between clusters. A shared state (version 3, or 4 if sealed) therefore
// identifies the table by a hash of its name and of the types and orders of its key columns, which determine the
// meaning of a position.
const (
	// Versions are the first byte of a state. A new format needs a new version. Old versions must be decoded as long
	// as clients may hold such states across an upgrade.
	stateVersion      = 1
	stateSealed       = 2
	stateShared       = 3
	stateSharedSealed = 4
	// The lengths, in bytes, of the authentication code and of the hash of a table's name and key.
	stateMACBytes  = 16
	stateNameBytes = 16

	// Bits of flags. iota is 6 here, so the bits are 1<<6 and 1<<7; they are part of the format.
	stateStarted = 1 << iota
	stateDone
)

// pagingState is a decoded paging state. It is the position after the last row of a page.
type pagingState struct {
	At        scan.Position
	Remaining uint32 // rows that LIMIT still permits; 0 means no limit
}

// pagingKeys authenticate states. The slices are not changed. Cluster is never empty in a cluster; only tests have an
// empty one.
type pagingKeys struct {
	Cluster []byte // the secret of this cluster
	Shared  []byte // derived by sharedPagingKey from the secret of several clusters; empty means none
}

// sharedPagingKey derives the key of shared states from a secret, so that the secret itself is not used as a key. It
// returns nil for an empty secret, which means that states are not shared.
func sharedPagingKey(secret []byte) []byte {
	if len(secret) == 0 {
		return nil
	}
	h := hmac.New(sha256.New, secret)
	// The label separates this use of the secret from future ones.
	h.Write([]byte("cqld paging states"))
	return h.Sum(nil)
}

// errPagingState is the error of a state that was not made with the same key for the same table. It deliberately
// contains no reason, which would help a client to forge states.
var errPagingState = errors.New("paging: invalid state")

// appendPagingState appends the encoding of a state of a table. keys authenticate it, and encrypt it if key columns
// are masked. If there is a shared key, it authenticates the state, so that all clusters accept it. The result shares
// no memory with s.
func appendPagingState(dst []byte, keys pagingKeys, table *schema.Table, s *pagingState) []byte {
	start := len(dst)
	key, seal := keys.Cluster, byte(stateSealed)
	if len(keys.Shared) > 0 {
		key, seal = keys.Shared, stateSharedSealed
		dst = append(append(dst, stateShared), stateNameOf(table)...)
	} else {
		dst = wire.AppendUvarint(append(dst, stateVersion), uint64(stateNumberOf(table)))
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
	// The code covers all bytes before it, including the version.
	dst = append(dst, stateMAC(key, dst[start:])...)
	if mask.Keys(table) {
		// Seal into new memory, because Seal reads the plain state.
		return append(append(dst[:start:start], seal), mask.Seal(key, dst[start:])...)
	}
	return dst
}

// stateNumberOf identifies a table in its cluster, by the part of its id that differs most. TRUNCATE, which changes the
// number in storage, leaves it, so that clients can read the next page after it.
func stateNumberOf(table *schema.Table) uint32 { return binary.BigEndian.Uint32(table.ID[:]) }

// stateNameOf identifies a table in all clusters. Equal hashes mean that positions in the tables have the same meaning.
// A change of the types of the key, or of their order, changes the hash. Other columns do not matter: a position
// consists of key and clustering.
func stateNameOf(table *schema.Table) []byte {
	var b []byte
	// The length prefix makes the input of the hash unambiguous.
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

// stateMAC returns the authentication code of a state. 128 bits suffice, because a forger has to try each code on a
// server.
func stateMAC(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)[:stateMACBytes]
}

// decodePagingState returns the state that b encodes, or errPagingState. The state shares no memory with b. With a
// shared secret, decodePagingState still accepts states of this cluster, so that a query continues when the secret is
// introduced. It verifies the code before it interprets any part of b, and copies the variable parts, because b
// belongs to the frame of the request.
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
	// A sealed state contains a complete plain state with its own code.
	if b[0] == stateSealed || b[0] == stateSharedSealed {
		opened, err := mask.Open(key, b[1:])
		if err != nil {
			return nil, errPagingState
		}
		// The seal authenticates the state; the code is still verified below.
		b = opened
	}
	// Only the version plain is valid here, so that a state of one key is not accepted with the other key.
	n := len(b) - stateMACBytes
	if n < 1 || b[0] != plain || !hmac.Equal(b[n:], stateMAC(key, b[:n])) {
		return nil, errPagingState
	}
	c := wire.NewCursor(b[1:n])
	if plain == stateShared {
		if !bytes.Equal(c.Take(stateNameBytes), stateNameOf(table)) {
			return nil, errPagingState
		}
	} else if c.Uvarint() != uint64(stateNumberOf(table)) {
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
