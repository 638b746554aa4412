package odata

// Type is one of the eight types that a property can have.
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

// Value is a typed value.
type Value struct {
	Type Type
	// Bytes are a String's UTF-8, a Binary's bytes, a GUID's 16 bytes in the order of its text.
	Bytes []byte
	// Int is a Boolean (0, 1), Int32, Int64, or a DateTime in ticks of 100 ns since 1970, UTC.
	Int int64
	// Float is a Double.
	Float float64
}

// Property is a named value. A property without a value is no property: null is left out on writing.
type Property struct {
	Name  string
	Value Value
}

// Entity is a row: its keys, the server's time of its last change, and its properties in the order in
// which they came.
type Entity struct {
	PartitionKey, RowKey string
	// Timestamp is in ticks of 100 ns since 1970, UTC. The ETag is made from it.
	Timestamp  int64
	Properties []Property
}

// String is the type's EDM name.
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
	return "Edm.None"
}

// Property is the entity's property of that name, or nil.
func (e *Entity) Property(name string) *Property {
	for i := range e.Properties {
		if e.Properties[i].Name == name {
			return &e.Properties[i]
		}
	}
	return nil
}
