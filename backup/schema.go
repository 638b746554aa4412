package backup

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cqld/schema"
	"cqld/types"
)

// Target is a table to be restored: the table Keyspace.Name of a backup as table As of the keyspace Into.
type Target struct {
	Keyspace, Name string
	Into, As       string
	// Replaces means that the table has another name until Replacement is applied, which may replace a table.
	Replaces bool
}

// Renamed reports whether the restored table has another name.
func (t Target) Renamed() bool { return t.Keyspace != t.Into || t.Name != t.As }

// Tables returns the tables of users in a schema, without materialized views and without dropped tables that can be
// restored, in the order of their numbers in storage.
// scope names keyspaces and tables; if it is empty, all of them. A name that does not exist is an error.
func Tables(s *schema.Schema, scope []string) (out []*schema.Table, err error) {
	for _, name := range scope {
		keyspace, table, one := strings.Cut(name, ".")
		k := s.Keyspace(keyspace)
		switch {
		case k == nil || schema.IsSystem(keyspace):
			return nil, fmt.Errorf("there is no keyspace %s of users", keyspace)
		case one && (k.Table(table) == nil || k.Table(table).IsView()):
			return nil, fmt.Errorf("there is no table %s", name)
		}
	}
	for _, id := range s.StorageIDs() {
		t := s.TableByStorage(id)
		if t.Virtual || t.IsView() || t.Retention != nil || schema.IsSystem(t.Keyspace) {
			continue
		}
		if len(scope) == 0 || slices.Contains(scope, t.Keyspace) || slices.Contains(scope, t.Keyspace+"."+t.Name) {
			out = append(out, t)
		}
	}
	return out, nil
}

// Changes returns the changes of the schema now that create the targets as they were in the schema of a backup, with
// their keyspaces, types, functions, indexes and views, in an order in which they can be applied. Elements that exist
// already are not created again; a table that exists is an error, unless an earlier attempt has created it, or the
// target replaces it. seed determines the identifiers of the tables: another attempt with the same seed finds them.
//
// whole means that keyspaces, functions and views are restored as well, which need not belong to the targets.
func Changes(then, now *schema.Schema, targets []Target, seed string, whole bool) ([]schema.Change, error) {
	b := &builder{then: then, now: now, seed: seed}
	for _, t := range targets {
		if !slices.Contains(b.keyspaces, t.Keyspace) {
			b.keyspaces = append(b.keyspaces, t.Keyspace)
		}
	}
	if whole {
		for _, name := range then.KeyspaceNames() {
			if !schema.IsSystem(name) && !slices.Contains(b.keyspaces, name) {
				b.keyspaces = append(b.keyspaces, name)
			}
		}
	}
	for _, name := range b.keyspaces {
		// A keyspace of renamed tables only has to have their types, which exist (table).
		renamed := !whole && !slices.ContainsFunc(targets, func(t Target) bool {
			return t.Keyspace == name && t.Into == name
		})
		if renamed {
			continue
		}
		if err := b.keyspace(then.Keyspace(name)); err != nil {
			return nil, err
		}
	}
	if replaced(now, targets, seed) {
		return b.changes, nil
	}
	for _, t := range targets {
		if err := b.table(t); err != nil {
			return nil, err
		}
	}
	for _, t := range targets {
		if t.Renamed() {
			continue
		}
		if err := b.views(t); err != nil {
			return nil, err
		}
	}
	return b.changes, nil
}

// IDOf returns the identifier of a restored table. It differs from the identifier in the backup: a table that was
// dropped, or exists beside the restored one, must not share rows, hints or repairs with it.
func IDOf(seed string, t Target) (id schema.UUID) {
	sum := sha256.Sum256([]byte(seed + "\x00" + t.Into + "\x00" + t.As))
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return id
}

// builder collects changes. It compares with the schema before the first change: an element that a change creates is
// not seen as existing by the next one, so each element is visited once.
type builder struct {
	then, now *schema.Schema // of the backup, and of the cluster
	seed      string         // see IDOf
	keyspaces []string       // of the backup that are restored
	changes   []schema.Change
}

// add appends a change, which can be applied after the changes before it.
func (b *builder) add(c schema.Change) { b.changes = append(b.changes, c) }

// keyspace creates a keyspace with its types and functions, or what an existing one lacks. The replication of an
// existing keyspace stays as it is: the operator may have adapted it to the ring.
func (b *builder) keyspace(k *schema.Keyspace) error {
	now := b.now.Keyspace(k.Name)
	if now == nil {
		b.add(&schema.CreateKeyspace{Keyspace: k.Name, Replication: k.Replication, DurableWrites: k.DurableWrites})
	}
	// Also of one that exists: an earlier attempt may have ended before.
	lacking := map[string][]byte{}
	for name, value := range k.Extensions {
		if now == nil || now.Extensions[name] == nil {
			lacking[name] = value
		}
	}
	if len(lacking) > 0 {
		b.add(&schema.AlterKeyspace{Keyspace: k.Name, Extend: lacking})
	}
	b.remark(k, now, "", "")
	if err := b.types(k, now); err != nil {
		return err
	}
	for _, f := range k.Functions() {
		if now == nil || !now.HasSignature(f.Signature()) {
			b.add(&schema.CreateFunction{Function: f})
		}
	}
	for _, a := range k.Aggregates() {
		if now == nil || !now.HasSignature(a.Signature()) {
			// The type of the result follows from its functions.
			plain := *a
			plain.Returns = nil
			b.add(&schema.CreateAggregate{Aggregate: &plain})
		}
	}
	return nil
}

// types creates the types that a keyspace lacks, each after the types in its fields. A type that exists must be equal:
// values of the restored rows are encoded by it.
func (b *builder) types(k, now *schema.Keyspace) error {
	done := map[string]bool{}
	var create func(name string) error
	create = func(name string) error {
		t := k.Type(name)
		if done[name] || t == nil {
			return nil
		}
		done[name] = true
		if now != nil && now.Type(name) != nil {
			if now.Type(name).DeclaredClass() != t.DeclaredClass() {
				return fmt.Errorf("type %s.%s exists and differs from the type of the backup", k.Name, name)
			}
			b.remarks(k, now, t)
			return nil
		}
		for _, field := range t.Elems() {
			for _, used := range userTypes(nil, field) {
				if err := create(used); err != nil {
					return err
				}
			}
		}
		b.add(&schema.CreateType{Type: t})
		b.remarks(k, now, t)
		return nil
	}
	for _, name := range k.TypeNames() {
		if err := create(name); err != nil {
			return err
		}
	}
	return nil
}

// userTypes appends the names of the user-defined types in a type, also inside collections and tuples. The types in the
// fields of a user-defined type are not included.
func userTypes(out []string, t *types.Type) []string {
	if t.Kind() == types.UDT {
		return append(out, t.UDTName())
	}
	for _, e := range t.Elems() {
		out = userTypes(out, e)
	}
	return out
}

// remarks sets the comments and labels of a type and its fields. They are changes of their own, so an earlier attempt
// may have ended before them.
func (b *builder) remarks(k, now *schema.Keyspace, t *types.Type) {
	b.remark(k, now, t.UDTName(), "")
	for _, field := range t.FieldNames() {
		b.remark(k, now, t.UDTName(), field)
	}
}

// remark sets the comment and the label of a keyspace, type or field that has none. of and field are empty for a
// keyspace, and field for a type.
func (b *builder) remark(k, now *schema.Keyspace, of, field string) {
	set := func(text string, label bool) {
		b.add(&schema.AlterKeyspace{Keyspace: k.Name, Comment: &schema.Comment{Type: of, Field: field, Text: text,
			Label: label}})
	}
	if text := k.Comment(of, field); text != "" && (now == nil || now.Comment(of, field) == "") {
		set(text, false)
	}
	if text := k.Label(of, field); text != "" && (now == nil || now.Label(of, field) == "") {
		set(text, true)
	}
}

// table creates a table with its indexes, which are built from the rows as they arrive. It refuses a target that cannot
// hold the rows, before anything is changed.
func (b *builder) table(t Target) error {
	old := b.then.Table(t.Keyspace, t.Name)
	if old == nil || old.IsView() {
		return fmt.Errorf("the backup has no table %s.%s", t.Keyspace, t.Name)
	}
	id := IDOf(b.seed, t)
	name := t.created(b.seed)
	if now := b.now.Table(t.Into, name); now != nil {
		if now.ID == id {
			return nil // by an earlier attempt
		}
		return fmt.Errorf("table %s.%s exists: drop it, or restore the table under another name with --as, or in its "+
			"place with --replace", t.Into, name)
	}
	c := &schema.CreateTable{Keyspace: t.Into, Table: name, ID: id, Options: old.Options, Compact: old.Compact}
	if t.Replaces {
		c.Options.Extensions = nil // Replacement sets them
	}
	for _, column := range old.StoredColumns() {
		if t.Into != t.Keyspace && len(userTypes(nil, column.Type)) > 0 {
			return fmt.Errorf("table %s.%s cannot be restored into another keyspace: its column %s has a user-defined "+
				"type", t.Keyspace, t.Name, column.Name)
		}
		c.Columns = append(c.Columns, schema.ColumnSpec{Name: column.Name, Kind: column.Kind, Desc: column.Desc,
			Type: column.Type, Mask: column.Mask, Attributes: column.Attributes})
	}
	if t.Into != t.Keyspace && b.now.Keyspace(t.Into) == nil {
		return fmt.Errorf("there is no keyspace %s", t.Into)
	}
	for i, x := range old.Indexes() {
		index := schema.CreateIndex{Keyspace: t.Into, Table: name, Name: x.Name, Class: x.Class,
			Column: old.ColumnByID(x.Column).Name, Target: x.Target, Options: x.Options}
		switch {
		case t.Replaces:
			index.Name = temporaryName(id, strconv.Itoa(i))
		case t.Renamed():
			index.Name = "" // names of indexes are unique in a keyspace
		}
		c.Indexes = append(c.Indexes, index)
	}
	b.add(c)
	return nil
}

// views creates the materialized views of a restored table. Columns are named by their numbers in the new table. The
// rows of a view are not in the backup: they are computed from the rows of the table.
func (b *builder) views(t Target) error {
	old := b.then.Table(t.Keyspace, t.Name)
	ids := map[schema.ColumnID]schema.ColumnID{}
	for i, column := range old.StoredColumns() {
		ids[column.ID] = schema.ColumnID(i) // as CreateTable assigns them
	}
	for _, v := range old.Views() {
		target := t.view(v)
		id, name := IDOf(b.seed, target), target.created(b.seed)
		if now := b.now.Table(v.Keyspace, name); now != nil {
			if now.ID == id {
				continue // by an earlier attempt
			}
			return fmt.Errorf("the materialized view %s.%s cannot be restored, because %[1]s.%[2]s exists: drop it, "+
				"or restore table %s under another name with --as, without its views", v.Keyspace, name, old.Name)
		}
		c := &schema.CreateView{Keyspace: v.Keyspace, View: name, ID: id, Base: t.created(b.seed),
			BaseID: IDOf(b.seed, t), All: v.View.All, Options: v.Options}
		if t.Replaces {
			c.Options.Extensions = nil
		}
		for _, column := range v.PartitionKey {
			c.Partition = append(c.Partition, ids[column.ID])
		}
		for _, column := range v.Clustering {
			c.Clustering = append(c.Clustering, schema.ViewClustering{Column: ids[column.ID], Desc: column.Desc})
		}
		if !c.All {
			for _, column := range v.StoredColumns() {
				c.Columns = append(c.Columns, ids[column.ID])
			}
		}
		// A condition is shared with the schema of the backup, so its columns are replaced in a copy.
		for _, condition := range v.View.Where {
			own := condition
			own.Columns = make([]schema.ColumnID, len(condition.Columns))
			for i, id := range condition.Columns {
				own.Columns[i] = ids[id]
			}
			c.Where = append(c.Where, own)
		}
		b.add(c)
	}
	return nil
}
