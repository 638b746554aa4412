package mask

import (
	"slices"

	"cqld/query/function"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// Table contains the compiled masks of a table. It is immutable. The nil *Table has no masks.
type Table struct {
	// columns is indexed by column id.
	columns []column
}

// column is the mask of one column; eval is nil if the column has none.
type column struct {
	eval function.Eval
	args [][]byte // arguments of the mask, without the masked value
}

// Compile returns the masks of t, or nil if t has none. A mask that cannot be applied to its column shows null
// instead of the column's values. An error instead would make the table unreadable, and the real values would defeat
// the mask. The result is valid for this version of t and of the functions of its keyspace.
func Compile(c *term.Compiler, t *schema.Table) *Table {
	if !t.Masked() {
		return nil
	}
	out := &Table{columns: make([]column, t.NextColumn)}
	for _, col := range t.Columns() {
		switch {
		// The zero value of column means no mask.
		case col.Mask == nil:
		case col.Mask.Keyspace != "":
			out.columns[col.ID] = compileUser(c, col)
		default:
			out.columns[col.ID] = compile(c.Functions, col)
		}
	}
	return out
}

// hiding returns the mask that shows null. It replaces masks that cannot be applied.
func hiding() column {
	return column{eval: func(function.Env, [][]byte) ([]byte, error) { return nil, nil }}
}

// compileUser returns a mask whose function a user has defined.
func compileUser(c *term.Compiler, col *schema.Column) column {
	if fn := UserFunction(c, col); fn != nil {
		return column{eval: fn.Eval, args: col.Mask.Args}
	}
	return hiding()
}

// UserFunction returns the user-defined function that masks a column, or nil. Its arguments are the value of the column
// and the arguments of the mask, its result has the type of the column, and the types are compared as Define compares
// them, without frozen.
func UserFunction(c *term.Compiler, col *schema.Column) *function.Function {
	if col.Mask == nil || col.Mask.Keyspace == "" || c.UserFunctions == nil {
		return nil
	}
	want := append([]*types.Type{col.Type}, ArgumentTypes(col)...)
	// The stored types cannot be decoded, or do not belong to the arguments.
	if len(want) != 1+len(col.Mask.Args) {
		return nil
	}
	same := func(a, b *types.Type) bool { return a.Freeze().Equal(b.Freeze()) }
	for _, fn := range c.UserFunctions(c.Schema.Keyspace(col.Mask.Keyspace), col.Mask.Function) {
		if !fn.IsAggregate() && slices.EqualFunc(fn.Args, want, same) && same(fn.Returns, col.Type) {
			return fn
		}
	}
	return nil
}

// compile returns a mask with a native function. It validates the stored arguments: if they do not match the
// function, the mask shows null.
func compile(functions *function.Library, c *schema.Column) column {
	hidden := hiding()
	args := []function.Arg{columnArg{c.Type}}
	argTypes := ArgumentTypes(c)
	if len(argTypes) != len(c.Mask.Args) || !function.IsMask(c.Mask.Function) {
		return hidden
	}
	for i, t := range argTypes {
		// The function does not validate its arguments, and these come from the stored schema.
		if v := c.Mask.Args[i]; v != nil && t.Validate(v) != nil {
			return hidden
		}
		args = append(args, columnArg{t})
	}
	fn, err := functions.Resolve(function.Call{Name: c.Mask.Function, Args: args})
	if err != nil || fn == nil || !fn.Returns.Equal(c.Type) {
		return hidden
	}
	return column{eval: fn.Eval, args: c.Mask.Args}
}

// Masks reports whether a column has a mask. t may be nil.
func (t *Table) Masks(c *schema.Column) bool { return t != nil && t.columns[c.ID].eval != nil }

// Value returns what a client without UNMASK sees instead of the value v of a column. Null is masked, too. v is in
// wire form; nil means null. Without a mask the result is v itself. t must not be nil.
func (t *Table) Value(env function.Env, c *schema.Column, v []byte) ([]byte, error) {
	m := &t.columns[c.ID]
	if m.eval == nil {
		return v, nil
	}
	// Allocate the list for each call, because requests share the Table.
	return m.eval(env, append([][]byte{v}, m.args...))
}
