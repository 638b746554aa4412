package write

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"cqld/query/invalid"
	"cqld/row"
	"cqld/schema"
)

// The bounds of this package.
const (
	// partitionBytesMax bounds the changes of one partition in bytes (Cassandra's max_mutation_size). changesBytesMax
	// bounds the changes of all partitions: IN writes each value once for each row.
	partitionBytesMax = 16 << 20
	changesBytesMax   = 64 << 20
	// changesScanned is how many mutations are searched linearly. A map is built only for more, because most batches
	// have few partitions.
	changesScanned = 16
)

// changeSet is the changes of one request, combined for each partition. The zero value is empty. A mutation per
// partition is what the coordinator sends and what a replica applies atomically. The order of partitions is the order
// of the first change of each.
type changeSet struct {
	Mutations []*row.Mutation
	Tables    []*schema.Table     // tables of the mutations
	index     map[mutationKey]int // positions of the mutations, if there are more than changesScanned
	bytes     int                 // total size of the mutations
}

// mutationKey identifies a partition of a table.
type mutationKey struct {
	changedTable schema.StorageID
	key          string
}

// Add adds a copy of m, whose memory the caller reuses. It fails if the changes of one partition, or of all, are too
// large. After an error the set must not be written.
func (c *changeSet) Add(t *schema.Table, m *row.Mutation) error {
	// Check the size before the copy, so that a request never uses much more memory than the bound.
	c.bytes += m.Size()
	if err := checkChanges(c.bytes); err != nil {
		return err
	}
	if x := c.find(m); x != nil {
		// One partition of one table is one mutation, which a replica applies atomically.
		x.Append(m)
		return checkPartition(t, x, 0)
	}
	x := new(row.Mutation)
	copyMutation(x, m)
	// Allocate each mutation separately, because the coordinator keeps pointers to them.
	c.Mutations = append(c.Mutations, x)
	c.Tables = append(c.Tables, t)
	switch n := len(c.Mutations); {
	case c.index != nil:
		c.index[mutationKey{m.Table, string(m.Key.Bytes)}] = n - 1
	case n > changesScanned:
		// Build the map once there are too many mutations for a linear search.
		c.index = make(map[mutationKey]int, 2*n)
		for i, x := range c.Mutations {
			c.index[mutationKey{x.Table, string(x.Key.Bytes)}] = i
		}
	}
	return nil
}

// find returns the mutation of the same partition as m, or nil. It compares tables by storage id, which changes if a
// table is dropped and created again.
func (c *changeSet) find(m *row.Mutation) *row.Mutation {
	if c.index != nil {
		if i, ok := c.index[mutationKey{m.Table, string(m.Key.Bytes)}]; ok {
			return c.Mutations[i]
		}
		return nil
	}
	// There is no index for up to changesScanned mutations.
	for _, x := range c.Mutations {
		if x.Table == m.Table && bytes.Equal(x.Key.Bytes, m.Key.Bytes) {
			return x
		}
	}
	return nil
}

// Partitions returns the number of different partition keys, per keyspace or in total. As in Cassandra, rows of several
// tables of a keyspace with the same key are one partition. With inKeyspaces, the same key in two keyspaces counts
// twice.
func (c *changeSet) Partitions(inKeyspaces bool) int {
	keys := make(map[string]bool, len(c.Mutations))
	for i, m := range c.Mutations {
		key := string(m.Key.Bytes)
		if inKeyspaces {
			// Names of keyspaces contain no NUL.
			key = c.Tables[i].Keyspace + "\x00" + key
		}
		keys[key] = true
	}
	return len(keys)
}

// TableNames returns the tables that are written, as warnings list them: [ks.t1, ks.t2], each once, in the order of the
// first change.
func (c *changeSet) TableNames() string {
	var names []string
	for _, t := range c.Tables {
		if n := t.Keyspace + "." + t.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// checkPartition returns an *invalid.Error with Cassandra's message and the decoded partition key if the changes of
// one partition are too large. more is the size, in bytes, of changes that are not encoded in m yet. Callers check
// after each row, which bounds the memory of a statement with IN.
func checkPartition(t *schema.Table, m *row.Mutation, more int) error {
	n := m.Size() + more
	if n <= partitionBytesMax {
		return nil
	}
	var key []byte
	for i, part := range row.KeyComponents(nil, m.Key.Bytes, len(t.PartitionKey)) {
		// Cassandra prints the components of a key with a colon between them.
		if i > 0 {
			key = append(key, ':')
		}
		key = t.PartitionKey[i].Type.AppendText(key, part)
	}
	return &invalid.Error{Msg: fmt.Sprintf("Rejected an oversized mutation (%d/%d) for keyspace: %s. Top keys "+
		"are: %s.%s", n, partitionBytesMax, t.Keyspace, t.Name, key)}
}

// checkChanges returns an error if n, the bytes of the changes of all partitions of a request, exceeds the bound.
// Cassandra has no such bound: it bounds each mutation.
func checkChanges(n int) error {
	if n > changesBytesMax {
		return &invalid.Error{Msg: fmt.Sprintf("The changes of one request have more than %d bytes", changesBytesMax)}
	}
	return nil
}

// copyMutation makes dst a copy of src that owns its memory. src is usually the builder of a writing, which the next
// statement overwrites.
func copyMutation(dst, src *row.Mutation) {
	dst.Reset(src.Table, row.PartitionKey{Token: src.Key.Token, Bytes: slices.Clone(src.Key.Bytes)})
	dst.Append(src)
}
