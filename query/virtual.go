package query

import (
	"cqld/auth"
	"cqld/schema"
)

// hidden returns the column of a virtual table that a client may not read although it may read the others, or nil:
// only superusers see hashes of passwords. The rows for such a client do not contain the column, so no restriction,
// function or order can depend on it. It implements read.Options.Hidden.
func (p *Processor) hidden(t *schema.Table, client auth.Principal) *schema.Column {
	if t.Keyspace != "system_auth" || t.Name != "roles" || p.o.Roles != nil && p.o.Roles.IsSuperuser(client) {
		return nil
	}
	return t.Column("salted_hash")
}
