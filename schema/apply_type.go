package schema

import (
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// applyCreateType adds a user-defined type. c.Type is not frozen, and its parts are resolved.
func applyCreateType(s *Schema, c *CreateType) (*Schema, error) {
	keyspace, name := c.Type.UDTKeyspace(), c.Type.UDTName()
	k := s.keyspaces[keyspace]
	if k == nil {
		return nil, &refused.NotFound{Keyspace: keyspace}
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	if k.types[name] != nil {
		if c.IfNotExists {
			return s, nil
		}
		return nil, &refused.Exists{Keyspace: keyspace, Table: name, Type: true}
	}
	seen := map[string]bool{}
	// FieldNames and Elems are parallel.
	for i, field := range c.Type.FieldNames() {
		if seen[field] {
			return nil, invalidf("Duplicate field name '%s' in type '%s'", field, name)
		}
		seen[field] = true
		if err := k.checkFieldType(c.Type.Elems()[i]); err != nil {
			return nil, err
		}
	}
	// Only the type itself is checked, because no other type can contain it yet.
	if err := checkExtent(c.Type); err != nil {
		return nil, err
	}
	next := k.clone()
	next.types[name] = c.Type
	return s.with(next), nil
}

// Limits of an expanded type, as encoded in its class name. The definition of a user-defined type is repeated wherever
// it is used, so a few small types could expand to a name of any length. A type beyond these limits could be encoded,
// but not decoded.
const (
	typeDepthMax = 256 // below the limit of types.ParseDeclaredClass
	typePartsMax = 10000
	// tablePartsMax bounds the sum of the types' parts of a table, or of the arguments of a function. A part takes
	// about 40 bytes of an encoded definition, so a table takes at most 5 MB in the metadata log.
	tablePartsMax = 1 << 17
)

// checkExtent rejects types whose expansion is too deep or too large. The message has half the depth, because each
// level of frozen types counts twice.
func checkExtent(t *types.Type) error {
	if _, ok := extent(t, 1); !ok {
		return invalidf("Type %s is too deep or too large: no more than %d levels and %d parts are possible",
			t, typeDepthMax/2, typePartsMax)
	}
	return nil
}

// extent returns the number of parts of a type at a depth, including the type itself. If a limit is exceeded, it stops:
// ok is false, and parts is incomplete.
//
//	int                           1 part
//	map<text, int>                3 parts
//	list<frozen<list<int>>>       3 parts; the inner list is one level deeper because of frozen
func extent(t *types.Type, depth int) (parts int, ok bool) {
	if t.Frozen() {
		depth++ // the class of a frozen type is nested in another class
	}
	if parts = 1; depth > typeDepthMax {
		return parts, false
	}
	// Stopping at the first part beyond a limit bounds the work by typePartsMax.
	for _, e := range t.Elems() {
		n, ok := extent(e, depth+1)
		if parts += n; !ok || parts > typePartsMax {
			return parts, false
		}
	}
	return parts, true
}

// errParts returns the error for definitions with too many parts. The message has the limit, not the actual number.
func errParts() error {
	return invalidf("The types have more than %d parts in all: those of a user-defined type count wherever it is used",
		tablePartsMax)
}

// CheckParts rejects a definition whose types have more than tablePartsMax parts in total. Otherwise a statement that
// names a large type many times could make an encoded definition of any size. Apply does not check this: older versions
// do not, and nodes of both versions must get the same schema.
func CheckParts(all ...*types.Type) error {
	sum := 0
	for _, t := range all {
		// parts is incomplete for a type that exceeds its own limits, which Apply refuses (checkExtent).
		parts, _ := extent(t, 1)
		if sum += parts; sum > tablePartsMax {
			return errParts()
		}
	}
	return nil
}

// ColumnTypes returns the types of the stored columns, in a new slice.
func (t *Table) ColumnTypes() []*types.Type {
	all := make([]*types.Type, len(t.stored))
	for i, c := range t.stored {
		all[i] = c.Type
	}
	return all
}

// CheckFieldParts is CheckParts for the tables of k after a user-defined type gets a field. Each use of the type grows
// by the field's parts.
func (k *Keyspace) CheckFieldParts(name string, field *types.Type) error {
	added, _ := extent(field, 1)
	for _, t := range k.tables {
		sum, used := 0, false
		for _, c := range t.stored {
			// The sum also includes the columns that do not use the type.
			parts, _ := extent(c.Type, 1)
			n := occurrences(c.Type, name)
			sum, used = sum+parts+n*added, used || n > 0
		}
		if used && sum > tablePartsMax {
			return errParts()
		}
	}
	return nil
}

// occurrences counts the uses of a user-defined type in t. It does not search inside the type, which cannot contain
// itself.
func occurrences(t *types.Type, name string) (n int) {
	if t.Kind() == types.UDT && t.UDTName() == name {
		return 1
	}
	for _, e := range t.Elems() {
		n += occurrences(e, name)
	}
	return n
}

// checkExtents checks all types of k after one of them was altered, because others may contain it. k need not be
// linked.
func (k *Keyspace) checkExtents() error {
	for _, name := range k.TypeNames() {
		if err := checkExtent(k.types[name]); err != nil {
			return err
		}
	}
	for _, name := range k.allNames() {
		// Hidden columns of compact tables have native types, so t.all suffices.
		for _, c := range k.tables[name].all {
			if err := checkExtent(c.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFieldType returns an error if t cannot be the type of a field in k. The user-defined types in t must be the
// current ones of k. Collections in fields need not be frozen.
func (k *Keyspace) checkFieldType(t *types.Type) error {
	switch {
	case t.Kind() == types.Counter:
		return invalidf("A user type cannot contain counters")
	case t.Kind() == types.UDT && t.MultiCell():
		return invalidf("A user type cannot contain non-frozen UDTs")
	}
	// Other types may contain user-defined types at any depth.
	return k.checkTypesExist(t)
}

// checkTypesExist returns an error if t contains a user-defined type that does not exist in k. Names suffice, because a
// definition contains only types of its own keyspace.
func (k *Keyspace) checkTypesExist(t *types.Type) error {
	if t.Kind() == types.UDT && k.types[t.UDTName()] == nil {
		return invalidf("Unknown type %s.%s", k.Name, t.UDTName())
	}
	for _, e := range t.Elems() {
		if err := k.checkTypesExist(e); err != nil {
			return err
		}
	}
	return nil
}

// current returns t with the current versions of k's user-defined types: one may have been altered since t was
// resolved. It fails if a type was dropped, or has become too large.
func (k *Keyspace) current(t *types.Type) (*types.Type, error) {
	if err := k.checkTypesExist(t); err != nil {
		return nil, err
	}
	t = k.renewed(t)
	return t, checkExtent(t)
}

// renewed returns t with the current versions of k's user-defined types, which must exist. Nested types are current as
// well, because withType replaces a changed type everywhere.
func (k *Keyspace) renewed(t *types.Type) *types.Type {
	if t.Kind() == types.UDT {
		// Whether it is frozen depends on the use, not on the type.
		if t.Frozen() {
			return k.types[t.UDTName()].Freeze()
		}
		return k.types[t.UDTName()]
	}
	return withParts(t, k.renewed)
}

// applyAlterType adds a field, or renames fields. Everything in the keyspace that contains the type is updated.
func applyAlterType(s *Schema, c *AlterType) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.types[c.Name] == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, invalidf("Type %s.%s doesn't exist", c.Keyspace, c.Name)
	}
	// changed stays nil if nothing changes.
	old := k.types[c.Name]
	var changed *types.Type
	var err error
	if c.FieldType != nil {
		changed, err = k.addField(old, c)
	} else {
		changed, err = renameFields(old, c)
		// Values without the new field remain valid, but renaming a field would change the literal of INITCOND.
		if users := k.initialUsing(c.Name); err == nil && len(users) > 0 {
			return nil, invalidf("Cannot alter user type %s.%s as it is still used in INITCOND by aggregates %s",
				c.Keyspace, c.Name, strings.Join(users, ", "))
		}
	}
	// A nil type means no change.
	if err != nil || changed == nil {
		return s, err
	}
	if err := checkExtent(changed); err != nil {
		return nil, err
	}
	// Definitions contain the type in expanded form, so their sizes change as well.
	next := k.withType(changed)
	next.renameFieldComments(c.Name, c.Rename)
	if err := next.checkExtents(); err != nil {
		return nil, err
	}
	return s.with(next), nil
}

// addField returns the type with the new field, or nil if nothing changes. The new field is the last one: existing
// values remain valid, and it is null in them.
func (k *Keyspace) addField(old *types.Type, c *AlterType) (*types.Type, error) {
	if slices.Contains(old.FieldNames(), c.Field) {
		if c.FieldIfNotExists {
			return nil, nil
		}
		return nil, invalidf("Cannot add field %s to type %s.%s: a field with name %s already exists",
			c.Field, c.Keyspace, old, c.Field)
	}
	if err := k.checkFieldType(c.FieldType); err != nil {
		return nil, err
	}
	// A type that contains itself could not be expanded.
	if uses(c.FieldType, c.Name) {
		return nil, invalidf("Cannot add new field %s of type %s to user type %s.%s as it would create a circular "+
			"reference",
			c.Field, qualifiedText(c.FieldType), c.Keyspace, old)
	}
	// Partition keys are compared as bytes, so a value with the new field would be another key.
	var keyed []string
	for _, name := range k.allNames() {
		for _, key := range k.tables[name].PartitionKey {
			if uses(key.Type, c.Name) {
				keyed = append(keyed, k.Name+"."+name)
				break
			}
		}
	}
	if len(keyed) > 0 {
		return nil, invalidf("Cannot add new field %s of type %s to user type %s.%s as the type is being used in "+
			"partition key by the following tables: %s", c.Field, c.FieldType, c.Keyspace, old,
			strings.Join(keyed, ", "))
	}
	fields := append(slices.Clone(old.FieldNames()), c.Field)
	elems := append(slices.Clone(old.Elems()), c.FieldType)
	return types.NewUDT(k.Name, c.Name, fields, elems, false), nil
}

// qualifiedText returns the text of a type, with the keyspace if it is a user-defined type, as in Cassandra's message.
func qualifiedText(t *types.Type) string {
	if t.Kind() != types.UDT {
		return t.String()
	}
	text := t.UDTKeyspace() + "." + types.QuoteName(t.UDTName())
	if t.Frozen() {
		text = "frozen<" + text + ">"
	}
	return text
}

// renameFields returns the type with renamed fields, or nil if no name changes. Renames apply in sequence, so two names
// can be swapped with a temporary third one.
//
//	fields a, b: RENAME a TO x AND b TO a AND x TO b   swaps them
func renameFields(old *types.Type, c *AlterType) (*types.Type, error) {
	fields := slices.Clone(old.FieldNames())
	positions := make(map[string][]int, len(fields)) // ascending; two fields may have one name in between
	for i, f := range fields {
		positions[f] = append(positions[f], i)
	}
	for _, r := range c.Rename {
		at := positions[r.From]
		if len(at) == 0 {
			if c.RenameIfExists {
				continue
			}
			return nil, invalidf("Unkown field %s in user type %s.%s", r.From, c.Keyspace, old) // Cassandra's spelling
		}
		// If two fields have the name, the first one is renamed.
		fields[at[0]] = r.To
		positions[r.From] = at[1:]
		positions[r.To] = append(positions[r.To], at[0])
		slices.Sort(positions[r.To])
	}
	// Names may be equal between renames, but not at the end.
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if seen[f] {
			return nil, invalidf("Duplicate field name %s in type %s", f, c.Keyspace) // Cassandra prints the keyspace
		}
		seen[f] = true
	}
	if slices.Equal(fields, old.FieldNames()) {
		return nil, nil
	}
	return types.NewUDT(old.UDTKeyspace(), old.UDTName(), fields, old.Elems(), false), nil
}

// applyDropType drops a user-defined type that is not in use. As in Cassandra, functions are checked first, then types,
// then tables.
func applyDropType(s *Schema, c *DropType) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.types[c.Name] == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.Name, Type: true}
	}
	if functions := k.functionsUsing(c.Name); len(functions) > 0 {
		return nil, invalidf("Cannot drop user type '%s.%s' as it is still used by functions %s",
			c.Keyspace, c.Name, strings.Join(functions, ", "))
	}
	// users is empty before each kind of element: only the first kind in use is reported.
	var users []string
	for _, name := range k.TypeNames() {
		if name != c.Name && uses(k.types[name], c.Name) {
			users = append(users, name)
		}
	}
	if len(users) > 0 {
		return nil, invalidf("Cannot drop user type '%s.%s' as it is still used by user types %s",
			c.Keyspace, c.Name, strings.Join(users, ", "))
	}
	// Views are omitted: their columns are columns of the table.
	for _, name := range k.TableNames() {
		for _, col := range k.tables[name].StoredColumns() {
			if uses(col.Type, c.Name) {
				users = append(users, name)
				break
			}
		}
	}
	if len(users) > 0 {
		return nil, invalidf("Cannot drop user type '%s.%s' as it is still used by tables %s",
			c.Keyspace, c.Name, strings.Join(users, ", "))
	}
	next := k.clone()
	delete(next.types, c.Name)
	next.dropTypeComments(c.Name)
	return s.with(next), nil
}

// uses reports whether t is or contains the user-defined type called name of its keyspace, at any depth.
func uses(t *types.Type, name string) bool {
	if t.Kind() == types.UDT && t.UDTName() == name {
		return true
	}
	return slices.ContainsFunc(t.Elems(), func(e *types.Type) bool { return uses(e, name) })
}

// withType returns a clone of k, not yet linked, with a user-defined type replaced in every type and column that
// contains it.
func (k *Keyspace) withType(u *types.Type) *Keyspace {
	c := k.clone()
	// replaceType returns a type unchanged if it does not contain u, so unchanged elements stay shared.
	for name, t := range k.types {
		c.types[name] = replaceType(t, u)
	}
	for name, t := range k.tables {
		c.tables[name] = t.withType(u)
	}
	c.withFunctionTypes(u)
	return c
}

// withType returns a sealed copy of t in which the columns that contain u are replaced, or t itself if there are none.
// Dropped columns are updated as well if their type still contains u (in vectors).
//
//	u {a int} gets b:   c u, d list<frozen<u>>   both get a new type
//	                    e int                    keeps its type
func (t *Table) withType(u *types.Type) *Table {
	if !slices.ContainsFunc(t.all, func(c *Column) bool { return uses(c.Type, u.UDTName()) }) {
		return t
	}
	// Elements of c.Dropped are values of a copied list and may be modified; columns are pointers and must be replaced.
	c := t.copyForChange()
	for _, list := range [...][]*Column{c.PartitionKey, c.Clustering, c.Statics, c.Regulars} {
		for i, col := range list {
			changed := *col
			changed.Type = replaceType(col.Type, u)
			list[i] = &changed
		}
	}
	for i := range c.Dropped {
		c.Dropped[i].Type = replaceType(c.Dropped[i].Type, u)
	}
	return c.Seal()
}

// replaceType returns t with every older version of u replaced by u, frozen where the older one was. It returns types
// without u unchanged.
func replaceType(t, u *types.Type) *types.Type {
	if !uses(t, u.UDTName()) {
		return t
	}
	if t.Kind() == types.UDT && t.UDTName() == u.UDTName() {
		if t.Frozen() {
			return u.Freeze()
		}
		return u
	}
	return withParts(t, func(e *types.Type) *types.Type { return replaceType(e, u) })
}

// withParts returns t with the results of replace as its parts, or t itself if no part changes.
func withParts(t *types.Type, replace func(*types.Type) *types.Type) *types.Type {
	// Equal pointers mean unchanged parts: only then is t reused.
	parts := make([]*types.Type, len(t.Elems()))
	changed := false
	for i, e := range t.Elems() {
		parts[i] = replace(e)
		changed = changed || parts[i] != e
	}
	if !changed {
		return t
	}
	switch t.Kind() {
	case types.List:
		return types.NewList(parts[0], t.Frozen())
	case types.Set:
		return types.NewSet(parts[0], t.Frozen())
	case types.Map:
		return types.NewMap(parts[0], parts[1], t.Frozen())
	// Tuples and vectors are always frozen, so their constructors have no such parameter.
	case types.Tuple:
		return types.NewTuple(parts...)
	case types.Vector:
		return types.NewVector(parts[0], t.Dimensions())
	case types.UDT:
		return types.NewUDT(t.UDTKeyspace(), t.UDTName(), t.FieldNames(), parts, t.Frozen())
	}
	// Types without parts do not change.
	return t
}
