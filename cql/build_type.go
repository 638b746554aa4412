package cql

import (
	"strconv"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// nativeType returns a native type. Its name is not checked: the grammar lists the names.
func nativeType(ctx grammar.INativeTypeContext) TypeExpr {
	return TypeExpr{Kind: TypeNative, Name: name(ctx)}
}

// dataType builds a type.
func (b *builder) dataType(ctx grammar.IDataTypeContext) TypeExpr {
	switch child := ctx.GetChild(0).(type) {
	case *grammar.NativeTypeContext:
		return nativeType(child)
	case *grammar.TypeNameContext:
		// A name of a native type in quotes is a user-defined type as well: it is not the rule of native types.
		n := b.typeName(child)
		return TypeExpr{Kind: TypeUser, Keyspace: n.Keyspace, Name: n.Name}
	case antlr.TerminalNode:
		return b.parameterType(child.GetSymbol(), ctx)
	}
	panic("cql: a rule of dataType has no builder")
}

// parameterType builds a type that begins with a token: one with arguments, or a custom type.
func (b *builder) parameterType(token antlr.Token, ctx grammar.IDataTypeContext) TypeExpr {
	if token.GetTokenType() == grammar.CqlLexerSTRING_LITERAL {
		return TypeExpr{Kind: TypeCustom, Custom: stringText(token.GetText())}
	}
	// The grammar fixes the number of arguments of each type.
	args := b.dataTypes(ctx.AllDataType())
	switch token.GetTokenType() {
	case grammar.CqlLexerK_FROZEN:
		return b.frozen(args[0])
	case grammar.CqlLexerK_LIST:
		return TypeExpr{Kind: TypeList, Args: args}
	case grammar.CqlLexerK_SET:
		return TypeExpr{Kind: TypeSet, Args: args}
	case grammar.CqlLexerK_MAP:
		return TypeExpr{Kind: TypeMap, Args: args}
	case grammar.CqlLexerK_TUPLE:
		return TypeExpr{Kind: TypeTuple, Args: args}
	case grammar.CqlLexerK_VECTOR:
		return b.vector(args, ctx.INTEGER().GetSymbol())
	}
	panic("cql: a token of dataType has no builder")
}

// vector builds vector<type, dimensions>. The grammar does not bound the number.
func (b *builder) vector(args []TypeExpr, number antlr.Token) TypeExpr {
	// Cassandra parses a Java int, and its exception is part of the message.
	dimensions, err := strconv.ParseInt(number.GetText(), 10, 32)
	if err != nil {
		statement := b.text
		// Show the statement completely or not at all, because redactMessage would not find secrets that are cut.
		if len(statement) > snippetCharsMax {
			statement = "..."
		}
		b.fail("Failed parsing statement: [" + statement + "] reason: NumberFormatException For input string: \"" +
			shown(tokenText(number)) + "\"")
	}
	return TypeExpr{Kind: TypeVector, Args: args, Dimensions: int(dimensions)}
}

// frozen builds frozen<t>. Custom types may be frozen.
func (b *builder) frozen(t TypeExpr) TypeExpr {
	if t.Kind == TypeNative {
		b.fail("frozen<> is only allowed on collections, tuples, and user-defined types (got " + t.Name + ")")
	}
	// Nested frozen has no further effect.
	t.Frozen = true
	return t
}

// dataTypes builds types in the order of the text.
func (b *builder) dataTypes(all []grammar.IDataTypeContext) []TypeExpr {
	var out []TypeExpr
	for _, t := range all {
		out = append(out, b.dataType(t))
	}
	return out
}

// argumentTypes returns the types between parentheses, and whether there are parentheses.
func (b *builder) argumentTypes(ctx grammar.IArgumentTypesContext) ([]TypeExpr, bool) {
	if ctx == nil {
		return nil, false
	}
	return b.dataTypes(ctx.AllDataType()), true
}

// typeName returns the name of a user-defined type. Some names are reserved for native types that were never added.
func (b *builder) typeName(ctx grammar.ITypeNameContext) QualifiedName {
	token := ctx.GetStop()
	if token.GetTokenType() == grammar.CqlLexerIDENT {
		switch identifier(token) {
		// In quotes, these names are allowed.
		case "byte", "complex", "enum", "interval", "macaddr", "bitstring":
			b.fail("Invalid (reserved) user type name " + token.GetText())
		}
	}
	return qualified(ctx.GetStart(), token)
}
