package replica

import (
	"cqld/ring/load"
	"cqld/row"
	"cqld/schema"
)

// meter counts what the engine does by range. Without a Meter, it counts nothing.
type meter struct{ *load.Meter }

// writes counts mutations. It is called before the engine has them: when the engine has applied them, the sender may
// use their memory again. Mutations that the engine refuses count as well.
func (m meter) writes(mutations []*row.Mutation) {
	for _, mu := range mutations {
		m.Write(mu.Table, mu.Key.Token, countedKey(mu.Table, mu.Key.Bytes), mu.Size())
	}
}

// read counts a read that was answered with a page of the given size.
func (m meter) read(cmd *row.ReadCommand, bytes int) {
	if cmd.SinglePartition() {
		m.Read(cmd.Table, cmd.Key.Token, countedKey(cmd.Table, cmd.Key.Bytes), bytes)
		return
	}
	// Coordinators divide ranges at the ring's tokens, so the end of a range identifies it.
	m.Read(cmd.Table, cmd.Range.Tokens.End, nil, bytes)
}

// countedKey returns a partition key as it counts among the busiest ones. The state of Paxos has the token of its
// partition and another form of key; it counts for the range only.
func countedKey(table schema.StorageID, key []byte) []byte {
	if table == schema.PaxosTable {
		return nil
	}
	return key
}
