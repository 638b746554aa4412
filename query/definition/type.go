package definition

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// typeOf resolves a type as written in a keyspace. User-defined types come from that keyspace, whether or not the
// type is qualified.
func (d *Definer) typeOf(keyspace string, e *cql.TypeExpr) (*types.Type, error) {
	return ResolveType(d.Schema.Keyspace(keyspace), keyspace, e)
}

// ResolveType resolves the type e in the keyspace k, which may be nil and has the name keyspace.
func ResolveType(k *schema.Keyspace, keyspace string, e *cql.TypeExpr) (*types.Type, error) {
	r := typeResolver{keyspace: keyspace, k: k}
	return r.resolve(e, false)
}

type typeResolver struct {
	keyspace string
	k        *schema.Keyspace
}

// resolve resolves e; inFrozen means that it is inside frozen<…> or a tuple, which freezes it.
func (r *typeResolver) resolve(e *cql.TypeExpr, inFrozen bool) (*types.Type, error) {
	if e.Frozen {
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
	case cql.TypeTuple:
		parts, err := r.parts(e)
		if err != nil {
			return nil, err
		}
		return types.NewTuple(parts...), nil
	case cql.TypeVector:
		return r.vector(e)
	case cql.TypeUser:
		return r.user(e, inFrozen)
	}
	return nil, invalid.Errorf("Unknown type %s", e.String())
}

func customType(class string) (*types.Type, error) {
	t, err := types.ParseClass(class)
	name, _, _ := strings.Cut(class, "(")
	if name = strings.TrimSpace(name); !strings.Contains(name, ".") {
		name = "org.apache.cassandra.db.marshal." + name
	}
	switch {
	case class == "":
		return types.Native(types.Blob), nil
	case isAbstractClass(name):
		return nil, syntaxf("Error setting type %s: Invalid comparator class %s: must define a public static "+
			"instance field or a public static method "+
			"getInstance(TypeParser).", class, name)
	case err == nil && t.Kind() == types.Custom && t.Unknown() &&
		!strings.HasPrefix(t.CustomClass(), "org.apache.cassandra.db.marshal.CompositeType") &&
		!strings.HasPrefix(t.CustomClass(), "org.apache.cassandra.db.marshal.DynamicCompositeType"):
		return nil, syntaxf("Error setting type %s: Unable to find abstract-type class '%s'", class, name)
	case err != nil || t.Unknown():
		return nil, syntaxf("Error setting type %s: Invalid definition for comparator %s.", class, name)
	}
	return t, nil
}

// isReversedClass reports whether e is the class ReversedType in quotes, with which a clustering column is in
// descending order.
func isReversedClass(e *cql.TypeExpr) bool {
	return e.Kind == cql.TypeCustom && strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(e.Custom),
		"org.apache.cassandra.db.marshal."), "ReversedType")
}

// isAbstractClass reports whether a class of Cassandra is the superclass of types, and none itself.
func isAbstractClass(name string) bool {
	switch strings.TrimPrefix(name, "org.apache.cassandra.db.marshal.") {
	case "AbstractType", "AbstractCompositeType", "NumberType", "StringType", "TemporalType":
		return true
	}
	return false
}

// parts resolves the elements of a tuple, which are frozen.
func (r *typeResolver) parts(e *cql.TypeExpr) ([]*types.Type, error) {
	var parts []*types.Type
	for i := range e.Args {
		t, err := r.resolve(&e.Args[i], true)
		if err != nil {
			return nil, err
		}
		if t.Kind() == types.Counter {
			return nil, invalid.Errorf("Counters are not allowed inside tuples")
		}
		parts = append(parts, t)
	}
	return parts, nil
}

func (r *typeResolver) vector(e *cql.TypeExpr) (*types.Type, error) {
	if e.Dimensions < 1 {
		return nil, invalid.Errorf("vectors may only have positive dimensions; given %d", e.Dimensions)
	}
	if e.Dimensions > vectorDimensionsMax {
		return nil, invalid.Errorf("vectors may have no more than %d dimensions; given %d", vectorDimensionsMax,
			e.Dimensions)
	}
	elem, err := r.resolve(&e.Args[0], false)
	if err != nil {
		return nil, err
	}
	if elem.Kind() == types.Counter {
		return nil, invalid.Errorf("Counters are not allowed inside vectors")
	}
	return types.NewVector(elem, e.Dimensions), nil
}

// vectorDimensionsMax is Cassandra's limit on the dimension of a vector.
const vectorDimensionsMax = 1 << 13 * 1024

func (r *typeResolver) collection(e *cql.TypeExpr, frozen bool) (*types.Type, error) {
	plain := *e
	plain.Frozen = false
	text := plain.String()
	var parts []*types.Type
	for i := range e.Args {
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
		if parts[0].Kind() == types.Duration {
			return nil, invalid.Errorf("Durations are not allowed inside sets: %s", e.String())
		}
		return types.NewSet(parts[0], frozen), nil
	}
	if parts[0].Kind() == types.Duration {
		return nil, invalid.Errorf("Durations are not allowed as map keys: %s", e.String())
	}
	return types.NewMap(parts[0], parts[1], frozen), nil
}

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
	if frozen {
		return t.Freeze(), nil
	}
	return t, nil
}

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
		return refuse(&schema.NotFound{Keyspace: keyspace})
	}
	def := Definition{Event: schema.Event{Change: schema.Created, Target: schema.TargetType, Keyspace: keyspace,
		Name: name}}
	var fields []string
	var elems []*types.Type
	for i := range stmt.Fields {
		fields = append(fields, stmt.Fields[i].Name)
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
	def.Change = &schema.CreateType{IfNotExists: stmt.IfNotExists,
		Type: types.NewUDT(keyspace, name, fields, elems, false)}
	return def
}

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
		if slices.Contains(k.Type(c.Name).FieldNames(), c.Field) && a.IfNotExists {
			return def
		}
		if err := k.CheckFieldParts(c.Name, t); err != nil {
			return refuse(err)
		}
	case *cql.RenameFields:
		c.RenameIfExists = a.IfExists
		for _, r := range a.Renames {
			c.Rename = append(c.Rename, schema.Rename{From: r.From, To: r.To})
		}
	case *cql.AlterFieldType:
		return refuse(invalid.Errorf("Altering field types is no longer supported"))
	}
	return def
}

func (d *Definer) dropType(stmt *cql.DropType) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Type)
	if err != nil {
		return refuse(err)
	}
	if err := mayChange(keyspace, "DROP", "all tables in "+keyspace); err != nil {
		return refuse(err)
	}
	return Definition{Change: &schema.DropType{Keyspace: keyspace, Name: stmt.Type.Name, IfExists: stmt.IfExists},
		Event: schema.Event{Change: schema.Dropped, Target: schema.TargetType, Keyspace: keyspace,
			Name: stmt.Type.Name}}
}
