package definition

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/schema/refused"
	"cqld/types"
)

// typeOf resolves a type as written in a keyspace. User-defined types come from that keyspace, whether or not their
// names are qualified. If the keyspace does not exist, no user-defined type is found.
func (d *Definer) typeOf(keyspace string, e *cql.TypeExpr) (*types.Type, error) {
	return ResolveType(d.Schema.Keyspace(keyspace), keyspace, e)
}

// ResolveType resolves the type expression e in keyspace k, whose name is keyspace. k is nil if the keyspace does not
// exist. Errors are *invalid.Error or, for misused frozen and class names, syntax errors. Package query/term uses it
// for type hints.
func ResolveType(k *schema.Keyspace, keyspace string, e *cql.TypeExpr) (*types.Type, error) {
	r := typeResolver{keyspace: keyspace, k: k}
	return r.resolve(e, false)
}

// typeResolver resolves one type and its parts.
type typeResolver struct {
	keyspace string
	k        *schema.Keyspace
}

// resolve resolves e; inFrozen means that it is inside frozen<…> or a tuple, which freezes it. Errors of parts come
// before errors of the whole.
func (r *typeResolver) resolve(e *cql.TypeExpr, inFrozen bool) (*types.Type, error) {
	if e.Frozen {
		// The message shows the type without frozen, as in Cassandra.
		switch e.Kind {
		case cql.TypeNative, cql.TypeCustom:
			inner := *e
			inner.Frozen = false
			return nil, syntaxf("frozen<> is only allowed on collections, tuples, and user-defined types (got %s)",
				inner.String())
		}
		inFrozen = true
	}
	switch e.Kind {
	case cql.TypeNative:
		t, ok := types.NativeByName(e.Name)
		if !ok {
			return nil, invalid.Errorf("Unknown type %s", e.Name)
		}
		return t, nil
	case cql.TypeCustom:
		return customType(e.Custom)
	case cql.TypeList, cql.TypeSet, cql.TypeMap:
		return r.collection(e, inFrozen)
	// A tuple is always frozen, whether or not frozen is written.
	case cql.TypeTuple:
		parts, err := r.parts(e)
		if err != nil {
			return nil, err
		}
		return types.NewTuple(parts...), nil
	// A vector is always frozen, whether or not frozen is written.
	case cql.TypeVector:
		return r.vector(e)
	case cql.TypeUser:
		return r.user(e, inFrozen)
	}
	return nil, invalid.Errorf("Unknown type %s", e.String())
}

// customType resolves a class name in quotes. The class of a CQL type resolves to that type. The messages are
// Cassandra's: they distinguish unknown classes, abstract classes and invalid parameters.
func customType(class string) (*types.Type, error) {
	t, err := types.ParseClass(class)
	// Messages contain only the class name without parameters, in Cassandra's package by default.
	name, _, _ := strings.Cut(class, "(")
	if name = strings.TrimSpace(name); !strings.Contains(name, ".") {
		name = "org.apache.cassandra.db.marshal." + name
	}
	// Abstract classes are checked before the parser's result, because the parser does not know them.
	switch {
	// Cassandra reads the empty class as BytesType.
	case class == "":
		return types.Native(types.Blob), nil
	case isAbstractClass(name):
		return nil, syntaxf("Error setting type %s: Invalid comparator class %s: must define a public static "+
			"instance field or a public static method "+
			"getInstance(TypeParser).", class, name)
	// ParseClass returns unknown classes as custom types. The composite types exist in Cassandra, so their parameters
	// are invalid.
	case err == nil && t.Kind() == types.Custom && t.Unknown() &&
		!strings.HasPrefix(t.CustomClass(), "org.apache.cassandra.db.marshal.CompositeType") &&
		!strings.HasPrefix(t.CustomClass(), "org.apache.cassandra.db.marshal.DynamicCompositeType"):
		return nil, syntaxf("Error setting type %s: Unable to find abstract-type class '%s'", class, name)
	case err != nil || t.Unknown():
		return nil, syntaxf("Error setting type %s: Invalid definition for comparator %s.", class, name)
	}
	return t, nil
}

// isReversedClass reports whether e is the class ReversedType in quotes, which makes a clustering column descending.
// customType resolves it to its base type.
func isReversedClass(e *cql.TypeExpr) bool {
	return e.Kind == cql.TypeCustom && strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(e.Custom),
		"org.apache.cassandra.db.marshal."), "ReversedType")
}

// isAbstractClass reports whether name, a class name with its package, is an abstract superclass of Cassandra's types.
func isAbstractClass(name string) bool {
	switch strings.TrimPrefix(name, "org.apache.cassandra.db.marshal.") {
	case "AbstractType", "AbstractCompositeType", "NumberType", "StringType", "TemporalType":
		return true
	}
	return false
}

// parts resolves the elements of a tuple, which are frozen. As in Cassandra, their number is not limited here;
// schema.CheckParts limits it.
func (r *typeResolver) parts(e *cql.TypeExpr) ([]*types.Type, error) {
	var parts []*types.Type
	for i := range e.Args {
		t, err := r.resolve(&e.Args[i], true)
		if err != nil {
			return nil, err
		}
		// Only the first level is checked: resolving a collection already refuses counters.
		if t.Kind() == types.Counter {
			return nil, invalid.Errorf("Counters are not allowed inside tuples")
		}
		parts = append(parts, t)
	}
	return parts, nil
}

// vector resolves vector<element, n>. Elements may be of any type but counters.
func (r *typeResolver) vector(e *cql.TypeExpr) (*types.Type, error) {
	if e.Dimensions < 1 {
		return nil, invalid.Errorf("vectors may only have positive dimensions; given %d", e.Dimensions)
	}
	if e.Dimensions > vectorDimensionsMax {
		return nil, invalid.Errorf("vectors may have no more than %d dimensions; given %d", vectorDimensionsMax,
			e.Dimensions)
	}
	// A vector is one cell, so its elements are frozen implicitly.
	elem, err := r.resolve(&e.Args[0], false)
	if err != nil {
		return nil, err
	}
	if elem.Kind() == types.Counter {
		return nil, invalid.Errorf("Counters are not allowed inside vectors")
	}
	return types.NewVector(elem, e.Dimensions), nil
}

// vectorDimensionsMax is Cassandra's limit on the dimension of a vector: 8,388,608.
const vectorDimensionsMax = 1 << 13 * 1024

// collection resolves a list, set or map. frozen applies to the collection and to its parts. Elements of a collection
// must be frozen, because a cell's path has one level.
//
//	list<list<int>>            error: the inner list is not frozen
//	list<frozen<list<int>>>    valid
//	frozen<list<list<int>>>    valid: frozen applies to the parts
func (r *typeResolver) collection(e *cql.TypeExpr, frozen bool) (*types.Type, error) {
	plain := *e
	plain.Frozen = false
	text := plain.String()
	var parts []*types.Type
	for i := range e.Args {
		// The message names the type without frozen, even if it was written.
		t, err := r.resolve(&e.Args[i], frozen)
		switch {
		case err != nil:
			return nil, err
		case t.Kind() == types.Counter:
			return nil, invalid.Errorf("Counters are not allowed inside collections: %s", text)
		case t.Kind() == types.UDT && t.MultiCell():
			return nil, invalid.Errorf("Non-frozen UDTs are not allowed inside collections: %s", text)
		case t.MultiCell():
			return nil, invalid.Errorf("Non-frozen collections are not allowed inside collections: %s", text)
		}
		parts = append(parts, t)
	}
	switch e.Kind {
	case cql.TypeList:
		return types.NewList(parts[0], frozen), nil
	case cql.TypeSet:
		// Durations have no order, which set elements and map keys need. Map values may be durations.
		if parts[0].Kind() == types.Duration {
			return nil, invalid.Errorf("Durations are not allowed inside sets: %s", e.String())
		}
		return types.NewSet(parts[0], frozen), nil
	}
	if parts[0].Kind() == types.Duration {
		return nil, invalid.Errorf("Durations are not allowed as map keys: %s", e.String())
	}
	// Only TypeMap remains.
	return types.NewMap(parts[0], parts[1], frozen), nil
}

// user resolves a user-defined type. A qualified name must name the keyspace of the statement.
func (r *typeResolver) user(e *cql.TypeExpr, frozen bool) (*types.Type, error) {
	if e.Keyspace != "" && e.Keyspace != r.keyspace {
		return nil, invalid.Errorf("Statement on keyspace %s cannot refer to a user type in keyspace %s; "+
			"user types can only be used in the keyspace they are defined in", r.keyspace, e.Keyspace)
	}
	var t *types.Type
	if r.k != nil {
		t = r.k.Type(e.Name)
	}
	if t == nil {
		return nil, invalid.Errorf("Unknown type %s.%s", r.keyspace, e.Name)
	}
	// k.Type returns the type unfrozen.
	if frozen {
		return t.Freeze(), nil
	}
	return t, nil
}

// createType defines CREATE TYPE. If the type exists, the types of fields need not be valid, because Apply reports the
// existing type first.
func (d *Definer) createType(stmt *cql.CreateType) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Type)
	if err != nil {
		return refuse(err)
	}
	if err := mayChange(keyspace, "CREATE", "all tables in "+keyspace); err != nil {
		return refuse(err)
	}
	name := stmt.Type.Name
	k := d.Schema.Keyspace(keyspace)
	if k == nil {
		return refuse(&refused.NotFound{Keyspace: keyspace})
	}
	def := Definition{Event: schema.Event{Change: schema.Created, Target: schema.TargetType, Keyspace: keyspace,
		Name: name}}
	var fields []string
	var elems []*types.Type
	for i := range stmt.Fields {
		fields = append(fields, stmt.Fields[i].Name)
		// If the type exists, elems stays empty; fields is emptied below.
		if k.Type(name) != nil {
			continue // Apply returns this error, before errors about the fields
		}
		t, err := d.typeOf(keyspace, &stmt.Fields[i].Type)
		if err != nil {
			return refuse(err)
		}
		elems = append(elems, t)
	}
	if k.Type(name) != nil {
		fields = nil
	}
	// If the type exists, a type without fields is a placeholder: Apply refuses or ignores the change.
	def.Change = &schema.CreateType{IfNotExists: stmt.IfNotExists,
		Type: types.NewUDT(keyspace, name, fields, elems, false)}
	return def
}

// alterType defines ALTER TYPE. Apply checks field names, and updates the types and tables that contain the type.
func (d *Definer) alterType(stmt *cql.AlterType) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Type)
	if err != nil {
		return refuse(err)
	}
	if err := mayChange(keyspace, "ALTER", "all tables in "+keyspace); err != nil {
		return refuse(err)
	}
	c := &schema.AlterType{Keyspace: keyspace, Name: stmt.Type.Name, IfExists: stmt.IfExists}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetType,
		Keyspace: keyspace, Name: stmt.Type.Name}}
	k := d.Schema.Keyspace(keyspace)
	// Apply reports a missing type, or ignores the statement because of IF EXISTS. It does not read FieldType, which is
	// nil.
	if k == nil || k.Type(c.Name) == nil {
		return def
	}
	switch a := stmt.Action.(type) {
	case *cql.AddField:
		t, err := d.typeOf(keyspace, &a.Field.Type)
		if err != nil {
			return refuse(err)
		}
		c.Field, c.FieldType, c.FieldIfNotExists = a.Field.Name, t, a.IfNotExists
		// Apply ignores the statement, so the limit on parts does not apply.
		if slices.Contains(k.Type(c.Name).FieldNames(), c.Field) && a.IfNotExists {
			return def
		}
		// Every use of the type gets one more part.
		if err := k.CheckFieldParts(c.Name, t); err != nil {
			return refuse(err)
		}
	case *cql.RenameFields:
		c.RenameIfExists = a.IfExists
		for _, r := range a.Renames {
			c.Rename = append(c.Rename, schema.Rename{From: r.From, To: r.To})
		}
		// A DEFAULT that names the fields would break.
		if err := checkDefaults(d, c, "rename fields of", keyspace, c.Name); err != nil {
			return refuse(err)
		}
	case *cql.AlterFieldType:
		return refuse(invalid.Errorf("Altering field types is no longer supported"))
	}
	return def
}

// dropType defines DROP TYPE. Apply refuses to drop a type that a column, type or function uses.
func (d *Definer) dropType(stmt *cql.DropType) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Type)
	if err != nil {
		return refuse(err)
	}
	if err := mayChange(keyspace, "DROP", "all tables in "+keyspace); err != nil {
		return refuse(err)
	}
	// A DEFAULT may name the type although no column has it.
	c := &schema.DropType{Keyspace: keyspace, Name: stmt.Type.Name, IfExists: stmt.IfExists}
	if err := checkDefaults(d, c, "drop", keyspace, c.Name); err != nil {
		return refuse(err)
	}
	return Definition{Change: c,
		Event: schema.Event{Change: schema.Dropped, Target: schema.TargetType, Keyspace: keyspace,
			Name: stmt.Type.Name}}
}
