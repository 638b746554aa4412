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
	// Names and types of fields are side by side.
	for i, field := range c.Type.FieldNames() {
		if seen[field] {
			return nil, invalidf("Duplicate field name '%s' in type '%s'", field, name)
		}
		seen[field] = true
		if err := k.checkFieldType(c.Type.Elems()[i]); err != nil {
			return nil, err
		}
	}
	// Only the type itself: no other type can contain it yet.
	if err := checkExtent(c.Type); err != nil {
		return nil, err
	}
	next := k.clone()
	next.types[name] = c.Type
	return s.with(next), nil
}

// Bounds of an expanded type, as its class name has it. The definition of a user-defined type is repeated wherever it
// is used, so a few small types could otherwise expand to a name of any length. Exceeding types would encode, and then
// not decode.
const (
	typeDepthMax = 256 // below the limit of types.ParseDeclaredClass
	typePartsMax = 10000
	// tablePartsMax bounds the types of a table, or of the arguments of a function, in all. A part takes about 40 bytes
	// of an encoded definition, and so a table at most 5 MB in the metadata log.
	tablePartsMax = 1 << 17
)

// checkExtent rejects types whose expansion is too deep or too large. Half the depth is in the message, because each
// level of frozen types counts twice.
func checkExtent(t *types.Type) error {
	if _, ok := extent(t, 1); !ok {
		return invalidf("Type %s is too deep or too large: no more than %d levels and %d parts are possible",
			t, typeDepthMax/2, typePartsMax)
	}
	return nil
}

// extent returns the number of parts of a type at a depth, with the type itself. It is not ok, and the number is
// incomplete, if a bound is exceeded. It stops there, so that its own time is bounded.
//
//	int                           1 part
//	map<text, int>                3 parts
//	list<frozen<list<int>>>       3 parts; the inner list is one level deeper because of frozen
func extent(t *types.Type, depth int) (parts int, ok bool) {
	if t.Frozen() {
		depth++ // its class is nested in another class
	}
	if parts = 1; depth > typeDepthMax {
		return parts, false
	}
	// The loop ends at the first part that exceeds a bound, so the work is bounded by typePartsMax.
	for _, e := range t.Elems() {
		n, ok := extent(e, depth+1)
		if parts += n; !ok || parts > typePartsMax {
			return parts, false
		}
	}
	return parts, true
}

// errParts returns the error for definitions with too many parts. The number is the bound, not the actual one.
func errParts() error {
	return invalidf("The types have more than %d parts in all: those of a user-defined type count wherever it is used",
		tablePartsMax)
}

// CheckParts rejects a definition whose types have more than tablePartsMax parts in all. A statement that names a large
// type many times would otherwise make an encoded definition of any size. Apply does not check this, because an older
// version does not: nodes of both versions must get the same schema.
func CheckParts(all ...*types.Type) error {
	sum := 0
	for _, t := range all {
		// The number is incomplete for a type that exceeds its own bounds, which Apply refuses (checkExtent).
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

// CheckFieldParts is CheckParts for the tables of k, if the user-defined type gets a field. Each occurrence of the type
// grows by the field's parts.
func (k *Keyspace) CheckFieldParts(name string, field *types.Type) error {
	added, _ := extent(field, 1)
	for _, t := range k.tables {
		sum, used := 0, false
		for _, c := range t.stored {
			// Each occurrence gets the field once. The other columns do not grow, and count too.
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

// occurrences counts the user-defined type with a name in t. Types cannot contain themselves, so that the search stops
// at one.
func occurrences(t *types.Type, name string) (n int) {
	if t.Kind() == types.UDT && t.UDTName() == name {
		return 1
	}
	for _, e := range t.Elems() {
		n += occurrences(e, name)
	}
	return n
}

// checkExtents checks all types of k after one of them has changed, because it may be part of others. k need not be
// linked.
func (k *Keyspace) checkExtents() error {
	for _, name := range k.TypeNames() {
		if err := checkExtent(k.types[name]); err != nil {
			return err
		}
	}
	for _, name := range k.allNames() {
		// Hidden columns of compact tables have native types, so all is enough.
		for _, c := range k.tables[name].all {
			if err := checkExtent(c.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFieldType returns an error if a field of a user-defined type of k must not have this type. The user-defined
// types in it must be the current ones of k. Collections in fields need not be frozen.
func (k *Keyspace) checkFieldType(t *types.Type) error {
	switch {
	case t.Kind() == types.Counter:
		return invalidf("A user type cannot contain counters")
	case t.Kind() == types.UDT && t.MultiCell():
		return invalidf("A user type cannot contain non-frozen UDTs")
	}
	// The other types of a field may contain user-defined types at any depth.
	return k.checkTypesExist(t)
}

// checkTypesExist returns an error if t contains a user-defined type that does not exist in k. It compares names: types
// of other keyspaces cannot be in a definition.
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

// current returns t with the current versions of the user-defined types of k: one may have been altered since t was
// resolved. The error is for a type that was dropped, or that has become too large.
func (k *Keyspace) current(t *types.Type) (*types.Type, error) {
	if err := k.checkTypesExist(t); err != nil {
		return nil, err
	}
	t = k.renewed(t)
	return t, checkExtent(t)
}

// renewed returns t with the current versions of the user-defined types of k, which must exist. The types in these are
// current: k replaces them everywhere when one changes.
func (k *Keyspace) renewed(t *types.Type) *types.Type {
	if t.Kind() == types.UDT {
		// Frozen depends on the place of use, not on the type.
		if t.Frozen() {
			return k.types[t.UDTName()].Freeze()
		}
		return k.types[t.UDTName()]
	}
	return withParts(t, k.renewed)
}

// applyAlterType adds a field, or renames fields. Everything in the keyspace that contains the type gets the new
// version.
func applyAlterType(s *Schema, c *AlterType) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.types[c.Name] == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, invalidf("Type %s.%s doesn't exist", c.Keyspace, c.Name)
	}
	// changed stays nil if there is nothing to do.
	old := k.types[c.Name]
	var changed *types.Type
	var err error
	if c.FieldType != nil {
		changed, err = k.addField(old, c)
	} else {
		changed, err = renameFields(old, c)
		// Adding a field leaves stored values valid, as they have fewer fields. Renaming changes how they are written.
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
	// Types, tables, functions and aggregates that contain the type get it expanded, so their sizes change, too.
	next := k.withType(changed)
	next.renameFieldComments(c.Name, c.Rename)
	if err := next.checkExtents(); err != nil {
		return nil, err
	}
	return s.with(next), nil
}

// addField returns the type with the new field, or nil if there is nothing to do. A new field is last: values without
// it stay valid, and it is null in them.
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
	// The definition of a type is expanded where it is used; a type that contains itself would have no end.
	if uses(c.FieldType, c.Name) {
		return nil, invalidf("Cannot add new field %s of type %s to user type %s.%s as it would create a circular "+
			"reference",
			c.Field, qualifiedText(c.FieldType), c.Keyspace, old)
	}
	// Values in partition keys are compared as bytes: keys with and without the field would be different partitions.
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

// renameFields returns the type with renamed fields, or nil if no name changes. Renames apply one after the other, so
// that names may be swapped by a third one.
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
		// The first field with the name is renamed, as a search in field order finds it.
		fields[at[0]] = r.To
		positions[r.From] = at[1:]
		positions[r.To] = append(positions[r.To], at[0])
		slices.Sort(positions[r.To])
	}
	// Checked at the end: names must only differ then.
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

// applyDropType drops a user-defined type that nothing uses: functions are checked first, then types, then tables, as
// in Cassandra.
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
	// The list is empty again before each kind of element: only one kind is reported.
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
	// Views are not listed: their columns are the table's.
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

// withType returns k with a user-defined type replaced in every type and column that contains it. The result is a clone
// that is not linked yet.
func (k *Keyspace) withType(u *types.Type) *Keyspace {
	c := k.clone()
	// replaceType returns a type itself if it does not contain u, so that unchanged elements stay shared.
	for name, t := range k.types {
		c.types[name] = replaceType(t, u)
	}
	for name, t := range k.tables {
		c.tables[name] = t.withType(u)
	}
	c.withFunctionTypes(u)
	return c
}

// withType returns t with the columns that contain u replaced, sealed, or t itself. Dropped columns change, too, where
// their type still contains u (vectors).
//
//	u {a int} gets b:   c u, d list<frozen<u>>   both get a new type
//	                    e int                    keeps its type
func (t *Table) withType(u *types.Type) *Table {
	if !slices.ContainsFunc(t.all, func(c *Column) bool { return uses(c.Type, u.UDTName()) }) {
		return t
	}
	// c.Dropped is a copy with values, so its elements may be written; columns are pointers and are replaced.
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

// replaceType returns t with u in place of every older version of u, frozen where the older one was. Unchanged types
// are returned as they are.
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

// withParts returns t with its parts replaced, or t itself if none changes. The parts of the result are the return
// values of replace, in order.
func withParts(t *types.Type, replace func(*types.Type) *types.Type) *types.Type {
	// The constructors are called only if a part differs: equal pointers mean equal types to the callers.
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
	// Tuples and vectors have no form that is not frozen, so their constructors do not ask.
	case types.Tuple:
		return types.NewTuple(parts...)
	case types.Vector:
		return types.NewVector(parts[0], t.Dimensions())
	case types.UDT:
		return types.NewUDT(t.UDTKeyspace(), t.UDTName(), t.FieldNames(), parts, t.Frozen())
	}
	// Types without parts have not changed.
	return t
}
