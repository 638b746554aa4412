package schema

import (
	"bytes"
	"maps"

	"cqld/ring"
	"cqld/schema/refused"
)

// Apply returns the schema after c. It depends only on its arguments, and validates c against s again, because s may
// have changed since c was created: of two concurrent CREATE TABLE, the second fails with *refused.Exists. If c has no
// effect because of its IF [NOT] EXISTS, Apply returns s itself. Other errors are *refused.NotFound and
// *refused.Invalid. s is never changed.
//
// Every node applies the same changes in the same order, including changes that older versions created. With a new
// check in Apply, nodes of two versions would disagree about the schema: such checks belong to the code that creates
// changes (CheckParts).
//
//	CREATE of an existing element    s with IF NOT EXISTS, otherwise *refused.Exists or *refused.Invalid
//	ALTER or DROP of a missing one   s with IF EXISTS, otherwise *refused.NotFound or *refused.Invalid
//	an equal definition              s
//	anything else                    a schema with a new version
func Apply(s *Schema, c Change) (*Schema, error) {
	// Every implementation of Change is a pointer type; a value would not implement the interface.
	switch c := c.(type) {
	case *CreateKeyspace:
		return applyCreateKeyspace(s, c)
	case *AlterKeyspace:
		return applyAlterKeyspace(s, c)
	case *DropKeyspace:
		return applyDropKeyspace(s, c)
	case *UndropKeyspace:
		return applyUndropKeyspace(s, c)
	case *PurgeKeyspaces:
		return applyPurgeKeyspaces(s, c)
	case *CreateTable:
		return applyCreateTable(s, c)
	case *AlterTable:
		return applyAlterTable(s, c)
	case *DropTable:
		return applyDropTable(s, c)
	case *UndropTable:
		return applyUndropTable(s, c)
	case *PurgeTables:
		return applyPurgeTables(s, c)
	case *TruncateTable:
		return applyTruncateTable(s, c)
	case *ReplaceTables:
		return applyReplaceTables(s, c)
	case *CreateView:
		return applyCreateView(s, c)
	case *AlterView:
		return applyAlterView(s, c)
	case *DropView:
		return applyDropView(s, c)
	case *CreateType:
		return applyCreateType(s, c)
	case *AlterType:
		return applyAlterType(s, c)
	case *DropType:
		return applyDropType(s, c)
	case *CreateIndex:
		return applyCreateIndex(s, c)
	case *DropIndex:
		return applyDropIndex(s, c)
	case *CreateFunction:
		return applyCreateFunction(s, c)
	case *CreateAggregate:
		return applyCreateAggregate(s, c)
	case *DropFunction:
		return applyDropFunction(s, c)
	}
	// DecodeChange refuses changes of newer versions, so this is a bug in this package.
	return nil, invalidf("unknown schema change %T", c)
}

// applyCreateKeyspace adds an empty keyspace. The names of existing keyspaces, including system keyspaces, are taken.
func applyCreateKeyspace(s *Schema, c *CreateKeyspace) (*Schema, error) {
	if s.keyspaces[c.Keyspace] != nil {
		if c.IfNotExists {
			return s, nil
		}
		return nil, &refused.Exists{Keyspace: c.Keyspace}
	}
	// Checked here as well, because a Change may come from a protocol server other than CQL.
	if err := CheckKeyspaceName(c.Keyspace); err != nil {
		return nil, err
	}
	if err := checkReplication(c.Replication); err != nil {
		return nil, err
	}
	// nextStorage stays: the keyspace has no tables yet.
	return s.with(NewKeyspace(c.Keyspace, c.Replication, c.DurableWrites)), nil
}

// applyAlterKeyspace changes the properties that c sets. If nothing changes, it returns s, and the version stays.
func applyAlterKeyspace(s *Schema, c *AlterKeyspace) (*Schema, error) {
	old := s.keyspaces[c.Keyspace]
	if old == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace}
	}
	if err := old.checkOwnDefinition(); err != nil {
		return nil, err
	}
	// The clone shares its tables with old: they are replaced below, never modified.
	k := old.clone()
	if c.DurableWrites != nil {
		k.DurableWrites = *c.DurableWrites
	}
	if c.Replication != nil {
		if err := checkReplication(*c.Replication); err != nil {
			return nil, err
		}
		replicate(k, *c.Replication)
	}
	// Unlike the properties above, extensions are merged, because several protocol servers set them.
	k.Extensions = extend(old.Extensions, c.Extend)
	if c.Comment != nil {
		if err := k.setComment(c.Comment); err != nil {
			return nil, err
		}
	}
	// extend may return a new map with equal contents, so contents are compared.
	if k.DurableWrites == old.DurableWrites && k.sameComments(&old.remarks) && k.Replication.Equal(old.Replication) &&
		maps.EqualFunc(k.Extensions, old.Extensions, bytes.Equal) {
		return s, nil
	}
	return s.with(k), nil
}

// extend returns old with the extensions of set. A nil extension in set removes it. old is shared by other schemas and
// never modified. If set is empty, extend returns old.
//
//	old {a: 1, b: 2}, set {b: nil, c: 3}   becomes {a: 1, c: 3}
func extend(old, set map[string][]byte) map[string][]byte {
	if len(set) == 0 {
		return old
	}
	// The result is a new map even if nothing differs; the caller compares contents, not pointers.
	next := map[string][]byte{}
	maps.Copy(next, old)
	for name, value := range set {
		if value == nil {
			delete(next, name)
			continue
		}
		next[name] = value
	}
	return next
}

// applyDropKeyspace removes a keyspace and its contents or, with a retention, hides it until its grace period ends. No
// system keyspace can be dropped, not even a replicated one.
func applyDropKeyspace(s *Schema, c *DropKeyspace) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace}
	}
	if IsSystem(c.Keyspace) {
		return nil, invalidf("Cannot drop keyspace '%s'", c.Keyspace)
	}
	// Changes of earlier versions have no retention: the data are removed at once.
	if c.Retention != nil && Restorable(k) {
		return s.retainKeyspace(k, *c.Retention), nil
	}
	keyspaces := maps.Clone(s.keyspaces)
	delete(keyspaces, c.Keyspace)
	// nextStorage stays, so the storage ids of the keyspace's tables are not reused.
	return s.rebuilt(keyspaces, s.nextStorage), nil
}

// keyspaceNameMax is Cassandra's limit on keyspace names, in bytes: they are directory names there.
const keyspaceNameMax = 48

// tableNameMax is Cassandra's limit on table names, in bytes: the limit on file names, minus the length of its
// suffixes.
const tableNameMax = 222

// CheckKeyspaceName returns a *refused.Invalid with Cassandra's message if the name is not a valid keyspace name.
func CheckKeyspaceName(name string) error {
	if !isWord(name) {
		return invalidf("Keyspace name must not be empty and must contain alphanumeric or underscore characters "+
			"only (got \"%s\")", name)
	}
	// isWord admits ASCII only, so bytes are characters.
	if len(name) > keyspaceNameMax {
		return invalidf("Keyspace name must not be more than %d characters long (got %d characters for \"%s\")",
			keyspaceNameMax, len(name), name)
	}
	return nil
}

// isWord reports whether a name is non-empty and consists of ASCII letters, digits and underscores. Names of keyspaces,
// tables and indexes must; names of columns need not.
func isWord(name string) bool {
	// All bytes of characters outside ASCII are at least 0x80, so bytes need not be decoded.
	for i := 0; i < len(name); i++ {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != ""
}

// checkReplication refuses replication that no user keyspace may have. Data centers need not exist, because the ring
// changes independently of the schema.
func checkReplication(r ring.Replication) error {
	switch r.Class {
	// A factor of zero is valid: only negative numbers are refused.
	case ring.Simple:
		if r.Factor < 0 {
			return misconfiguredf("Replication factor must be non-negative, found %d", r.Factor)
		}
	case ring.NetworkTopology:
		for _, f := range r.Datacenters {
			if f.Factor < 0 {
				return misconfiguredf("Replication factor must be non-negative, found %d", f.Factor)
			}
		}
	// The factors follow the members, whatever the change says.
	case ring.Everywhere:
	// LocalStrategy is the class of the local and virtual system keyspaces, which are not created by a Change.
	case ring.Local:
		return invalidf("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
	default:
		return misconfiguredf("Missing replication strategy class")
	}
	return nil
}
