package cql

// TypeKind is the syntactic kind of a TypeExpr, before its names are resolved.
type TypeKind uint8

// The kinds of type expressions.
const (
	TypeInvalid TypeKind = iota
	TypeNative           // Name is one of the native types, lower case ("varchar" is kept as written)
	TypeList             // Args: element
	TypeSet              // Args: element
	TypeMap              // Args: key, value
	TypeTuple            // Args: one or more
	TypeVector           // Args: element; Dimensions
	TypeUser             // Keyspace (may be empty), Name
	TypeCustom           // Custom: a Java class name, from a string literal
)

// TypeExpr is a type as written. Packages query and schema resolve it with the user-defined types of a keyspace. The
// zero value is invalid.
type TypeExpr struct {
	Kind     TypeKind
	Keyspace string // of a user-defined type
	Name     string // of a native or user-defined type
	// The Java class of a custom type.
	Custom string
	// The element types of collections, tuples and vectors; a map has two.
	Args       []TypeExpr
	Dimensions int // of a vector
	// The type is enclosed in frozen<…>.
	Frozen bool
}

// String returns the type as CQL text.
func (t TypeExpr) String() string { return string(appendType(nil, &t)) }
