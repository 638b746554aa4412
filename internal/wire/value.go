package wire

// ValueKind is the kind of a bound [value].
type ValueKind uint8

// The kinds of a [value]. The zero value is null.
const (
	ValueNull  ValueKind = iota // length -1
	ValueSet                    // length ≥ 0; a length of 0 is an empty value, not null
	ValueUnset                  // length -2, protocol v4 and later
)

// Value is a bound value of a request. Bytes points into the buffer it was consumed from and is meaningful only for
// ValueSet.
type Value struct {
	Kind  ValueKind
	Bytes []byte
}

// BytesValue returns the value b, or null if b is nil.
func BytesValue(b []byte) Value {
	if b == nil {
		return Value{}
	}
	return Value{Kind: ValueSet, Bytes: b}
}
