package query

import (
	"cqld/row"
	"cqld/schema"
)

// checkMutation refuses changes of one partition that are too large, in Cassandra's words.
func checkMutation(t *schema.Table, m *row.Mutation) error {
	n := m.Size()
	if n <= mutationBytesMax {
		return nil
	}
	var key []byte
	for i, part := range row.KeyComponents(nil, m.Key.Bytes, len(t.PartitionKey)) {
		if i > 0 {
			key = append(key, ':')
		}
		key = t.PartitionKey[i].Type.AppendText(key, part)
	}
	return invalidf("Rejected an oversized mutation (%d/%d) for keyspace: %s. Top keys are: %s.%s", n, mutationBytesMax, t.Keyspace, t.Name, key)
}

// checkChanges refuses a request whose changes of all partitions have n bytes if they are too large.
func checkChanges(n int) error {
	if n > changesBytesMax {
		return invalidf("The changes of one request have more than %d bytes", changesBytesMax)
	}
	return nil
}
