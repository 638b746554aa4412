package selection

import (
	"cqld/cql"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// Aggregate is one aggregation of a SELECT. Its position in Selection.Aggregates is the position of its accumulator
// in Context.Aggregates. Function creates a new accumulator for each group or execution.
type Aggregate struct {
	Function *function.Function
	Args     []Selector
}

// Selection is a compiled select clause. It is immutable. Executions share it. Selectors has one for each of Columns.
type Selection struct {
	Columns    []term.Spec // columns of the result
	Selectors  []Selector
	Aggregates []Aggregate
	// Plain is set if every selector is a plain column. If no mask applies to the client either, the reader takes a
	// fast path and copies values from the row without a Context.
	Plain []*schema.Column
	// checks evaluate the literals and bound values: their errors do not depend on rows.
	checks []func(x *Context) error
	// Repeats is set if Plain contains a column twice, so that a row of the result may be much larger than the stored
	// row.
	Repeats bool
}

// selected is a compiled selector with its type and its name in the result. The name of an alias replaces the name only
// in the metadata of the result.
type selected struct {
	sel  Selector
	typ  *types.Type
	name name
}

// Compile compiles the select clause of a SELECT from the compiler's table. Selectors are all resolved before the first
// is compiled, since Cassandra reports unknown names of any selector before errors of types. Bind markers are added to
// c in the order of the text.
func Compile(c *term.Compiler, stmt *cql.Select) (*Selection, error) {
	s := &Selection{}
	b := newCompiler(c, s)
	var list []selected
	// SELECT * has the columns in the order of the table: partition key, clustering, statics, regulars.
	if len(stmt.Columns) == 0 {
		for _, col := range c.Table.Columns() {
			list = append(list, selected{&Column{col}, col.Type, named(col.Name)})
		}
	}
	// The first pass resolves names.
	for _, sc := range stmt.Columns {
		if err := b.prepare(sc.Selector); err != nil {
			return nil, err
		}
	}
	// The second pass determines types and compiles selectors.
	for _, sc := range stmt.Columns {
		x, err := b.compile(sc.Selector, nil)
		if err != nil {
			return nil, err
		}
		// The alias is a name in the result only; other clauses cannot use it.
		if sc.Alias != "" {
			x.name = named(sc.Alias)
		}
		list = append(list, x)
	}
	// SELECT JSON has one column, with an object of the columns. Masks and functions apply to the values in it.
	if stmt.JSON {
		j := &jsonSelector{}
		// Aliases are the keys of the JSON object.
		for _, x := range list {
			j.names = append(j.names, x.name.String())
			j.types = append(j.types, x.typ)
			j.of = append(j.of, x.sel)
		}
		list = []selected{{j, types.Native(types.Text), named("[json]")}}
	}
	for _, x := range list {
		permitNulls(x.sel)
	}
	s.Columns = make([]term.Spec, len(list))
	plain := make([]*schema.Column, 0, len(list))
	for i, x := range list {
		// The metadata of computed columns also names the table of the statement.
		s.Columns[i] = c.Receiver(x.name.String(), x.typ)
		s.Selectors = append(s.Selectors, x.sel)
		if col, ok := x.sel.(*Column); ok {
			plain = append(plain, col.Column)
		}
	}
	// Use the fast path only if all selectors are plain columns.
	if len(plain) == len(list) {
		s.Plain = plain
		// Use a set, because a select clause may have thousands of columns.
		distinct := make(map[*schema.Column]bool, len(plain))
		for _, col := range plain {
			distinct[col] = true
		}
		s.Repeats = len(distinct) < len(plain)
	}
	return s, nil
}

// OnlyStatic reports whether the select clause names static columns and, beside them, columns of the partition key
// only. It resolves the names in the selectors, but, as in Cassandra, only if the table has static columns, and only
// up to the selector that determines the result; Compile reports errors in later ones. It reports false for SELECT *.
func OnlyStatic(c *term.Compiler, stmt *cql.Select) (bool, error) {
	if len(c.Table.Statics) == 0 {
		return false, nil
	}
	static, err := anySelects(c, stmt, func(k schema.ColumnKind) bool { return k == schema.Static })
	if err != nil || !static {
		return false, err
	}
	// A partition key column does not count, because it belongs to the partition.
	others, err := anySelects(c, stmt, func(k schema.ColumnKind) bool {
		return k != schema.Static && k != schema.PartitionKey
	})
	return err == nil && !others, err
}

// anySelects reports whether a selector names a column of one of the kinds. The first selector that names one ends the
// search, and errors of later ones are not found.
func anySelects(c *term.Compiler, stmt *cql.Select, of func(schema.ColumnKind) bool) (found bool, err error) {
	// Use a trial, so that this pass does not change the compiler.
	b := newCompiler(c, &Selection{}).trial()
	for _, sc := range stmt.Columns {
		if err := b.resolveNames(sc.Selector); err != nil {
			return false, err
		}
		// Columns in arguments and operands count as selected.
		cql.WalkColumns(sc.Selector, func(name string) {
			col := c.Table.Column(name)
			found = found || col != nil && of(col.Kind)
		})
		if found {
			return true, nil
		}
	}
	return false, nil
}

// CompileOne compiles a selector of another clause than the select clause. GROUP BY uses it. Its aggregates would be
// lost, but its caller allows scalar functions of columns only.
func CompileOne(c *term.Compiler, x cql.Selector) (Selector, error) {
	v, err := newCompiler(c, &Selection{}).compile(x, nil)
	return v.sel, err
}

// compiler compiles selectors; aggregates are collected in s.
type compiler struct {
	// c is the compiler of the statement; it collects bind markers and called functions.
	c *term.Compiler
	s *Selection
	// inAggregate is true inside an aggregate, where another aggregate is an error.
	inAggregate bool
	calls       map[cql.Selector]resolution // cached results of resolve, by selector
	// hints caches the results of hinted.
	hints map[*cql.TypeHintSelector]hint
}

// hint is the type of a type hint, or the error. The error is cached, too, so that all trials return it.
type hint struct {
	typ *types.Type
	err error
}

// newCompiler returns a compiler that adds aggregates to s. Its maps live as long as one compilation.
func newCompiler(c *term.Compiler, s *Selection) *compiler {
	return &compiler{c: c, s: s, calls: map[cql.Selector]resolution{}, hints: map[*cql.TypeHintSelector]hint{}}
}

// compile compiles a selector. want is the expected type, or nil if any type is allowed. The type of the result may
// differ from want if a column or a function has another one; callers that require want call Match. If the type is
// unknown and want is nil, the error is cannotInfer.
func (b *compiler) compile(x cql.Selector, want *types.Type) (selected, error) {
	switch x := x.(type) {
	case *cql.ColumnSelector:
		col, err := b.c.Column(x.Column)
		if err != nil {
			return selected{}, err
		}
		return selected{&Column{col}, col.Type, named(col.Name)}, nil
	case *cql.TermSelector:
		return b.term(x, want)
	case *cql.CountAll:
		// COUNT(*) and COUNT(1) are one function without arguments.
		fn, err := b.c.Functions.Resolve(function.Call{Name: "count_rows"})
		if err != nil {
			return selected{}, err
		}
		return b.aggregate(fn, nil, named("count"))
	case *cql.FunctionSelector:
		return b.call(x)
	case *cql.ArithmeticSelector:
		return b.operator(x, func(names []name) name {
			return joined(names[0], named(" "+string(rune(x.Operator))+" "), names[1])
		})
	case *cql.NegateSelector:
		return b.operator(x, func(names []name) name { return joined(named("-"), names[0]) })
	case *cql.CastSelector:
		return b.cast(x)
	case *cql.TypeHintSelector:
		// The hint is the type of the result, the value is converted to it.
		t, err := b.hinted(x)
		if err != nil {
			return selected{}, err
		}
		v, err := b.compile(x.Value, t)
		// Cassandra shows the value as written, except for a hint in it.
		text := asWritten(x.Value)
		if err == nil && isHinted(x.Value) {
			text = v.name
		}
		return selected{v.sel, t, joined(named("("+term.HintText(t)+")"), text)}, err
	case *cql.MetadataSelector:
		return b.metadata(x)
	case *cql.FieldSelector:
		return b.field(x)
	case *cql.ElementSelector:
		return b.element(x)
	case *cql.SliceSelector:
		return b.slice(x)
	}
	// Everything else is a literal with selectors in it.
	return b.literal(x, want)
}

// fitsHint reports whether a selector can have a type hint. A non-frozen column does not match a frozen type. The
// check uses the types before the value is compiled, as Cassandra does.
func (b *compiler) fitsHint(x cql.Selector, t *types.Type) bool {
	// Columns are compared without freezing, other selectors with it.
	if column, ok := x.(*cql.ColumnSelector); ok {
		col, err := b.c.Column(column.Column)
		return err != nil || function.AssignableAsIs(col.Type, t) != function.NoMatch
	}
	return (&selectorArg{b, x}).Match(t) != function.NoMatch
}

// isHinted reports whether a selector is a type hint, perhaps in parentheses: its name contains type names with their
// keyspaces.
func isHinted(x cql.Selector) bool {
	switch x := x.(type) {
	case *cql.TypeHintSelector:
		return true
	case *cql.TupleSelector:
		return len(x.Elements) == 1 && isHinted(x.Elements[0])
	}
	return false
}

// hinted returns the type of a type hint, or an error if the value does not match it. It caches the result, because
// it compiles the value: nested hints would otherwise double the work with each level.
func (b *compiler) hinted(x *cql.TypeHintSelector) (*types.Type, error) {
	if h, ok := b.hints[x]; ok {
		return h.typ, h.err
	}
	t, err := b.c.TypeOf(x.Type)
	if err == nil {
		err = checkFields(x.Value, t)
	}
	if err == nil && !b.fitsHint(x.Value, t.Freeze()) {
		// Cassandra's message repeats the hint on both sides.
		text := "(" + term.HintText(t) + ")" + term.SelectorText(x.Value)
		err = invalid.Errorf("Cannot assign value %s to %s of type %s", text, text, t.Freeze())
	}
	b.hints[x] = hint{t, err}
	return t, err
}

// cannotInfer is the error for a literal or bind marker whose type the context does not determine.
func cannotInfer(x cql.Selector) error {
	return invalid.Errorf("Cannot infer type for term %s in selection clause (try using a cast to force a type)",
		term.SelectorText(x))
}

// term compiles a literal or bind marker, which needs an expected type. The marker has the name [selection], as in
// Cassandra.
func (b *compiler) term(x *cql.TermSelector, want *types.Type) (selected, error) {
	// The context does not determine a type.
	if want == nil {
		return selected{}, cannotInfer(x)
	}
	t, err := b.c.Term(x.Term, b.c.Receiver("[selection]", want))
	s := &termSelector{t: t, unset: unsetValue(want)}
	b.checkValue(s)
	return selected{s, want, asWritten(x)}, err
}

// literal compiles collections, tuples and user-defined types of selectors. Without an expected type, the exact type
// of the elements determines the type.
func (b *compiler) literal(x cql.Selector, want *types.Type) (selected, error) {
	// The expected type takes precedence; elements are converted to it.
	t := want
	if t == nil {
		if t = (&selectorArg{b, x}).exact(); t == nil {
			return selected{}, cannotInfer(x)
		}
	}
	out := &partsSelector{t: t}
	// The first error ends the compilation, so an incomplete out is never used.
	add := func(s cql.Selector, t *types.Type) error {
		v, err := b.compile(s, t)
		out.parts = append(out.parts, v.sel)
		return err
	}
	mismatch := func() error {
		text := term.SelectorText(x)
		return invalid.Errorf("Cannot assign value %s to %s of type %s", text, text, t)
	}
	switch x := x.(type) {
	case *cql.ListSelector:
		if t.Kind() != types.List && t.Kind() != types.Vector {
			return selected{}, mismatch()
		}
		for _, e := range x.Elements {
			if err := add(e, t.Elems()[0]); err != nil {
				return selected{}, err
			}
		}
	case *cql.SetSelector:
		// The grammar parses {} as a set; it is an empty map if a map is expected.
		if t.Kind() != types.Set && (t.Kind() != types.Map || len(x.Elements) > 0) {
			return selected{}, mismatch()
		}
		for _, e := range x.Elements {
			if err := add(e, t.Elems()[0]); err != nil {
				return selected{}, err
			}
		}
	case *cql.MapSelector:
		if t.Kind() != types.Map {
			return selected{}, mismatch()
		}
		for _, e := range x.Entries {
			if err := add(e.Key, t.Elems()[0]); err != nil {
				return selected{}, err
			}
			if err := add(e.Value, t.Elems()[1]); err != nil {
				return selected{}, err
			}
		}
	case *cql.TupleSelector:
		// Parentheses around a selector have the grammar of a tuple of one element.
		if isTuple := t.Kind() == types.Tuple; !isTuple && len(x.Elements) == 1 {
			v, err := b.compile(x.Elements[0], want)
			v.name = joined(named("("), v.name, named(")"))
			return v, err
			// A tuple may have fewer elements than the type: the others are null. A user-defined type can be written as
			// a tuple.
		} else if !isTuple && t.Kind() != types.UDT || len(x.Elements) > len(t.Elems()) {
			return selected{}, mismatch()
		}
		for i, e := range x.Elements {
			if err := add(e, t.Elems()[i]); err != nil {
				return selected{}, err
			}
		}
	case *cql.UDTSelector:
		return b.udt(x, t)
	default:
		return selected{}, invalid.NotSupported("This selector")
	}
	return selected{out, t, asWritten(x)}, nil
}

// udt compiles {a: x, b: y}: a user-defined type, or a map whose keys are columns. Fields that are not named are null,
// as nil in parts.
func (b *compiler) udt(x *cql.UDTSelector, t *types.Type) (selected, error) {
	// The grammar parses {a: x} as a user-defined type; for a map, the field names are columns.
	if t.Kind() == types.Map {
		m := &cql.MapSelector{}
		for _, f := range x.Fields {
			m.Entries = append(m.Entries, cql.MapSelectorEntry{Key: &cql.ColumnSelector{Column: f.Name},
				Value: f.Value})
		}
		return b.literal(m, t)
	}
	if t.Kind() != types.UDT {
		text := term.SelectorText(x)
		return selected{}, invalid.Errorf("Cannot assign value %s to %s of type %s", text, text, t)
	}
	out := &partsSelector{t: t, parts: make([]Selector, len(t.FieldNames()))}
	if err := checkFields(x, t); err != nil {
		return selected{}, err
	}
	for _, f := range x.Fields {
		i := t.FieldIndex(f.Name)
		v, err := b.compile(f.Value, t.Elems()[i])
		if err != nil {
			return selected{}, err
		}
		out.parts[i] = v.sel
	}
	return selected{out, t, asWritten(x)}, nil
}

// checkFields refuses names that are not fields of t in a literal of a user-defined type.
func checkFields(x cql.Selector, t *types.Type) error {
	u, ok := x.(*cql.UDTSelector)
	if !ok || t.Kind() != types.UDT {
		return nil
	}
	for _, f := range u.Fields {
		if t.FieldIndex(f.Name) < 0 {
			return invalid.Errorf("Unknown field '%s' in value of user defined type %s", f.Name, t.UDTName())
		}
	}
	return nil
}

// field compiles x.field. The operand must have a user-defined type; it may be frozen or not.
func (b *compiler) field(x *cql.FieldSelector) (selected, error) {
	inner := x.Of
	// The operand may be enclosed in several parentheses.
	for {
		t, ok := inner.(*cql.TupleSelector)
		if !ok || len(t.Elements) != 1 {
			break
		}
		inner = t.Elements[0] // tuples have no fields, so these are parentheses
	}
	of, err := b.compile(inner, nil)
	if err != nil {
		return selected{}, err
	}
	if of.typ.Kind() != types.UDT {
		return selected{}, invalid.Errorf("Invalid field selection: %s of type %s is not a user type",
			term.SelectorText(x.Of), of.typ)
	}
	// Compare field names as written; they are not columns.
	i := of.typ.FieldIndex(x.Field)
	if i < 0 {
		return selected{}, invalid.Errorf("%s of type %s has no field %s", term.SelectorText(x.Of), of.typ, x.Field)
	}
	return selected{&fieldSelector{of.sel, of.typ, i}, of.typ.Elems()[i], asWritten(x)}, nil
}

// elementsOf compiles the collection from which elements are selected. what is the first word of the message: Element
// or Slice. As in Cassandra, elements of lists cannot be selected.
func (b *compiler) elementsOf(x cql.Selector, what string) (selected, error) {
	of, err := b.compile(x, nil)
	if err != nil {
		return selected{}, err
	}
	switch of.typ.Kind() {
	case types.Set, types.Map:
		return of, nil
	case types.List:
		return selected{}, invalid.Errorf("%s selection is only allowed on sets and maps, but %s is a list", what,
			term.SelectorText(x))
	}
	if what == "Slice" {
		return selected{}, invalid.Errorf("Invalid slice selection: %s of type %s is not a collection",
			term.SelectorText(x), of.typ)
	}
	return selected{}, invalid.Errorf("Invalid element selection: %s is of type %s is not a collection",
		term.SelectorText(x), of.typ)
}

// element compiles x[key]. The result has the type of the values of a map or the elements of a set.
func (b *compiler) element(x *cql.ElementSelector) (selected, error) {
	of, err := b.elementsOf(x.Of, "Element")
	if err != nil {
		return selected{}, err
	}
	key, err := b.elementTerm(x.Key, of)
	if err != nil {
		return selected{}, err
	}
	b.checkKey(key, of.name)
	// The elements of a set, or the values of a map.
	t := of.typ.Elems()[len(of.typ.Elems())-1]
	return selected{&elementSelector{of.sel, of.typ, key, of.name}, t, asWritten(x)}, nil
}

// elementTerm compiles a key, or a bound of a slice. It returns nil for nil, which is an open bound.
func (b *compiler) elementTerm(t cql.Term, of selected) (term.Term, error) {
	if t == nil {
		return nil, nil
	}
	// Cassandra's names of markers.
	word := "value("
	if of.typ.Kind() == types.Map {
		word = "key("
	}
	return b.c.Term(t, b.c.Receiver(word+of.name.String()+")", of.typ.Elems()[0]))
}

// slice compiles x[from..to], whose result has the type of the collection.
func (b *compiler) slice(x *cql.SliceSelector) (selected, error) {
	of, err := b.elementsOf(x.Of, "Slice")
	if err != nil {
		return selected{}, err
	}
	from, err := b.elementTerm(x.From, of)
	if err != nil {
		return selected{}, err
	}
	to, err := b.elementTerm(x.To, of)
	if err != nil {
		return selected{}, err
	}
	out := &sliceSelector{of.sel, of.typ, from, to, of.name}
	b.checkLimits(out)
	return selected{out, of.typ, asWritten(x)}, nil
}

// metadata compiles writetime, maxwritetime and ttl. The operand is a column or one part of one: an element, a slice,
// or a field. Key columns have no cells.
func (b *compiler) metadata(x *cql.MetadataSelector) (selected, error) {
	m := &metadataSelector{kind: x.Kind, field: -1}
	inner := x.Of
	// Only a column or a part of one has cells; parts of parts do not.
	switch of := x.Of.(type) {
	case *cql.ElementSelector:
		inner = of.Of
	case *cql.SliceSelector:
		inner, m.slice = of.Of, true
	case *cql.FieldSelector:
		inner = of.Of
	}
	name, ok := inner.(*cql.ColumnSelector)
	if !ok {
		return selected{}, invalid.Errorf("Cannot use selection function %s on %s", x.Kind, term.SelectorText(x.Of))
	}
	col, err := b.c.Column(name.Column)
	if err != nil {
		return selected{}, err
	}
	m.col = col
	// Key columns have no timestamp of their own.
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return selected{}, invalid.Errorf("Cannot use selection function %s on PRIMARY KEY part %s", x.Kind, col.Name)
	}
	if err := b.metadataPart(m, x.Of); err != nil {
		return selected{}, err
	}
	// Timestamps are in microseconds, TTLs in seconds.
	t := types.Native(types.Bigint)
	if x.Kind == cql.TTL {
		t = types.Native(types.Int)
	}
	// A multi-cell column has a list with an item for each cell.
	if !m.one() {
		t = types.NewList(t, false)
	}
	return selected{m, t, asWritten(x)}, nil
}

// metadataPart compiles the part of a column whose metadata is selected.
func (b *compiler) metadataPart(m *metadataSelector, of cql.Selector) (err error) {
	// Names of markers contain the name of the column.
	whole := selected{&Column{m.col}, m.col.Type, named(m.col.Name)}
	switch of := of.(type) {
	// Compile the collection only for its errors, because the selector reads cells.
	case *cql.ElementSelector:
		if _, err := b.elementsOf(of.Of, "Element"); err != nil {
			return err
		}
		if m.key, err = b.elementTerm(of.Key, whole); err == nil {
			b.checkKey(m.key, whole.name)
		}
	case *cql.SliceSelector:
		if _, err := b.elementsOf(of.Of, "Slice"); err != nil {
			return err
		}
		if m.from, err = b.elementTerm(of.From, whole); err != nil {
			return err
		}
		if m.to, err = b.elementTerm(of.To, whole); err == nil {
			b.checkLimits(&sliceSelector{name: whole.name, from: m.from, to: m.to})
		}
	case *cql.FieldSelector:
		if _, err := b.field(of); err != nil {
			return err
		}
		// b.field has checked that the field exists.
		m.field = m.col.Type.FieldIndex(of.Field)
	}
	return err
}
