package cql

// WalkColumns calls f for every column that a selector names. It calls f twice for a column that is named twice.
// Parse bounds the depth of the recursion. The name is as in the AST, folded or unquoted.
func WalkColumns(x Selector, f func(name string)) {
	if c, ok := x.(*ColumnSelector); ok {
		f(c.Column)
	}
	// Keys of elements and bounds of slices are terms, which name no column.
	for _, s := range Operands(x) {
		WalkColumns(s, f)
	}
}

// Operands returns the operands of a selector, in the order of the text. The caller must not modify the result, which
// may be a slice of the AST. Selectors without operands return nil.
func Operands(x Selector) (all []Selector) {
	switch x := x.(type) {
	case *FunctionSelector:
		all = x.Args
	case *CastSelector:
		all = []Selector{x.Value}
	case *TypeHintSelector:
		all = []Selector{x.Value}
	case *MetadataSelector:
		all = []Selector{x.Of}
	case *FieldSelector:
		all = []Selector{x.Of}
	case *ElementSelector:
		all = []Selector{x.Of}
	case *SliceSelector:
		all = []Selector{x.Of}
	case *ListSelector:
		all = x.Elements
	case *SetSelector:
		all = x.Elements
	case *TupleSelector:
		all = x.Elements
	// A new slice, in which keys and values alternate.
	case *MapSelector:
		for _, e := range x.Entries {
			all = append(all, e.Key, e.Value)
		}
	// The names are fields here, not operands.
	case *UDTSelector:
		for _, e := range x.Fields {
			all = append(all, e.Value)
		}
	case *ArithmeticSelector:
		all = []Selector{x.Left, x.Right}
	case *NegateSelector:
		all = []Selector{x.Value}
	}
	return all
}
