package odata

// Type is one of the eight types that a property can have. Zero means no type.
type Type uint8

// The types, by their EDM names.
const (
	String Type = 1 + iota
	Binary
	Boolean
	DateTime
	Double
	GUID
	Int32
	Int64
)

// Value is a typed value. The zero Value has no type. It has 48 bytes, so lists of properties avoid pointers.
type Value struct {
	Type Type
	// Bytes is the UTF-8 of a String, the bytes of a Binary, or the 16 bytes of a GUID in the order of its text.
	Bytes []byte
	// Int is a Boolean (0, 1), an Int32, an Int64, or a DateTime in ticks of 100 ns since 1970, UTC.
	Int int64
	// Float is a Double.
	Float float64
}

// Property is a named value. There are no properties without a value: a null in the input is ignored. The name is an
// identifier of at most 255 characters.
type Property struct {
	Name  string
	Value Value
}

// Entity is a row: its keys, the server's time of its last change, and its properties in the order of the input. A
// decoded entity refers to its body.
type Entity struct {
	PartitionKey, RowKey string
	// Timestamp is in ticks of 100 ns since 1970, UTC. The ETag is derived from it.
	Timestamp  int64
	Properties []Property
}

// String returns the type's EDM name. The result is the value of the annotation odata.type. Zero is shown as Edm.None.
func (t Type) String() string {
	//exhaustive:enforce
	switch t {
	case String:
		return "Edm.String"
	case Binary:
		return "Edm.Binary"
	case Boolean:
		return "Edm.Boolean"
	case DateTime:
		return "Edm.DateTime"
	case Double:
		return "Edm.Double"
	case GUID:
		return "Edm.Guid"
	case Int32:
		return "Edm.Int32"
	case Int64:
		return "Edm.Int64"
	}
	// It is not a name that a response can contain, because values without a type are not written.
	return "Edm.None"
}

// Property returns the entity's property with the given name, or nil. Names are case-sensitive. The search is linear:
// entities have few properties, and most callers look for few of them. The pointer is valid until the list changes.
func (e *Entity) Property(name string) *Property {
	for i := range e.Properties {
		if e.Properties[i].Name == name {
			return &e.Properties[i]
		}
	}
	return nil
}
