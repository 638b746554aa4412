package wire

// ValueKind tells the three things a bound [value] can be.
type ValueKind uint8

// The kinds of a [value]. The zero value is null.
const (
	ValueNull  ValueKind = iota // length -1
	ValueSet                    // length ≥ 0; a length of 0 is an empty value, not null
	ValueUnset                  // length -2, protocol v4 and later
)

// Value is a bound value as it stands in a request. Bytes points into the
// buffer it was consumed from and is meaningful only for ValueSet.
type Value struct {
	Kind  ValueKind
	Bytes []byte
}

// BytesValue is the value b, or null when b is nil.
func BytesValue(b []byte) Value {
	if b == nil {
		return Value{}
	}
	return Value{Kind: ValueSet, Bytes: b}
}

// UnsetValue is the value "not set".
func UnsetValue() Value { return Value{Kind: ValueUnset} }
