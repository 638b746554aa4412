// Package changes combines the changes that the statements of one request make, by partition, and bounds their size.
package changes

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
	// partitionBytesMax bounds the changes of one partition (Cassandra's max_mutation_size). bytesMax bounds those of
	// all partitions: IN writes each value once for each row.
	partitionBytesMax = 16 << 20
	bytesMax          = 64 << 20
	// scanned is how many mutations are compared one after the other with the next one.
	scanned = 16
)

// Set is the changes of one request, combined for each partition.
type Set struct {
	Mutations []*row.Mutation
	Tables    []*schema.Table     // of the mutations
	index     map[mutationKey]int // the positions of the mutations, if there are more than scanned
	bytes     int                 // of all mutations
}

// mutationKey identifies a partition of a table.
type mutationKey struct {
	table schema.StorageID
	key   string
}

// Add adds a copy of m. It fails if the changes of one partition, or of all, are too large.
func (c *Set) Add(t *schema.Table, m *row.Mutation) error {
	c.bytes += m.Size()
	if err := Check(c.bytes); err != nil {
		return err
	}
	if x := c.find(m); x != nil {
		x.Append(m)
		return CheckPartition(t, x)
	}
	x := new(row.Mutation)
	Copy(x, m)
	c.Mutations = append(c.Mutations, x)
	c.Tables = append(c.Tables, t)
	switch n := len(c.Mutations); {
	case c.index != nil:
		c.index[mutationKey{m.Table, string(m.Key.Bytes)}] = n - 1
	case n > scanned:
		c.index = make(map[mutationKey]int, 2*n)
		for i, x := range c.Mutations {
			c.index[mutationKey{x.Table, string(x.Key.Bytes)}] = i
		}
	}
	return nil
}

// find returns the mutation of the same partition as m, or nil.
func (c *Set) find(m *row.Mutation) *row.Mutation {
	if c.index != nil {
		if i, ok := c.index[mutationKey{m.Table, string(m.Key.Bytes)}]; ok {
			return c.Mutations[i]
		}
		return nil
	}
	for _, x := range c.Mutations {
		if x.Table == m.Table && bytes.Equal(x.Key.Bytes, m.Key.Bytes) {
			return x
		}
	}
	return nil
}

// Partitions returns the number of different partition keys, per keyspace or in total. As in Cassandra, rows of
// several tables of a keyspace with the same key are one partition.
func (c *Set) Partitions(inKeyspaces bool) int {
	keys := make(map[string]bool, len(c.Mutations))
	for i, m := range c.Mutations {
		key := string(m.Key.Bytes)
		if inKeyspaces {
			key = c.Tables[i].Keyspace + "\x00" + key
		}
		keys[key] = true
	}
	return len(keys)
}

// TableNames returns the tables that are written, as warnings list them.
func (c *Set) TableNames() string {
	var names []string
	for _, t := range c.Tables {
		if n := t.Keyspace + "." + t.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// CheckPartition refuses changes of one partition that are too large, in Cassandra's words.
func CheckPartition(t *schema.Table, m *row.Mutation) error {
	n := m.Size()
	if n <= partitionBytesMax {
		return nil
	}
	var key []byte
	for i, part := range row.KeyComponents(nil, m.Key.Bytes, len(t.PartitionKey)) {
		if i > 0 {
			key = append(key, ':')
		}
		key = t.PartitionKey[i].Type.AppendText(key, part)
	}
	return &invalid.Error{Msg: fmt.Sprintf("Rejected an oversized mutation (%d/%d) for keyspace: %s. Top keys "+
		"are: %s.%s", n, partitionBytesMax, t.Keyspace, t.Name, key)}
}

// Check refuses a request whose changes of all partitions have n bytes if they are too large.
func Check(n int) error {
	if n > bytesMax {
		return &invalid.Error{Msg: fmt.Sprintf("The changes of one request have more than %d bytes", bytesMax)}
	}
	return nil
}

// Copy makes dst a copy of src that owns its memory.
func Copy(dst, src *row.Mutation) {
	dst.Reset(src.Table, row.PartitionKey{Token: src.Key.Token, Bytes: slices.Clone(src.Key.Bytes)})
	dst.Append(src)
}
