package query

import (
	"cqld/auth"
	"cqld/query/virtual"
	"cqld/row"
	"cqld/schema"
)

// isVirtual reports whether this node generates the rows of t.
func (p *Processor) isVirtual(t *schema.Table) bool {
	return p.o.Virtual != nil && p.o.Virtual.Serves(t)
}

// hidden returns the column of a virtual table that a client may not read although it may read the others, or nil: only
// superusers see hashes of passwords. The rows do not contain it, so that no restriction, function or order depends on it.
func (p *Processor) hidden(t *schema.Table, client auth.Principal) *schema.Column {
	if t.Keyspace != "system_auth" || t.Name != "roles" || p.o.Roles != nil && p.o.Roles.IsSuperuser(client) {
		return nil
	}
	return t.Column("salted_hash")
}

// virtualPage executes a command on a virtual table and returns all matching rows that the client may see.
func (p *Processor) virtualPage(t *schema.Table, cmd *row.ReadCommand, client auth.Principal) ([]byte, error) {
	return virtual.Page(p.o.Virtual, t, cmd, p.hidden(t, client))
}
