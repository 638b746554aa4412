package cql

import (
	"fmt"
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// The builder is divided by the parts of the grammar. Each method is named after the rule whose context it converts:
//
//	build.go               the statement, CREATE, ALTER, DROP, names
//	build_data.go          SELECT, INSERT, UPDATE, DELETE, BATCH, SET, IF, USING
//	build_relation.go      WHERE
//	build_selector.go      selectors of SELECT
//	build_term.go          terms and literals
//	build_type.go          types
//	build_schema.go        types, indexes, functions, aggregates, DESCRIBE
//	build_table.go         tables, views, properties
//	build_extension.go     LIKE, CHECK, DEFAULT, COMMENT ON, SECURITY LABEL ON
//	build_role.go          roles, users, permissions, identities
//
// Errors that Cassandra's parser finds in code instead of grammar rules are reported by the builder, with fail and
// failAt.

// builder converts a parse tree to the AST. It visits the tree in the order of the text, so that bind markers are
// numbered in that order. A text that the grammar accepts has a well-formed tree, so the builder never checks for
// missing children.
type builder struct {
	// The parser of the text, for the tokens in messages.
	parser *parser
	// The statement as written. Only messages use it.
	text string
	// The number of bind markers so far: the index of the next one.
	markers int
	// operators counts the operators in the sums and products that enclose the current part. It bounds the number of
	// AST nodes above that part.
	operators int
	// The first error that Cassandra's parser finds with code, not by rules.
	err *SyntaxError
}

// dataBuilder builds the statements that read and write rows, and their relations. It only groups methods; all builders
// of a statement share one builder.
type dataBuilder struct{ *builder }

// schemaBuilder builds definitions, DESCRIBE, and the properties of definitions.
type schemaBuilder struct{ *builder }

// roleBuilder builds the statements about roles and permissions.
type roleBuilder struct{ *builder }

// fail records an error, unless there is one already. The builder continues after an error, with placeholders where it
// needs a node, and the caller discards the statement. Later errors may only be consequences of the first one.
func (b *builder) fail(msg string) {
	if b.err == nil {
		b.err = &SyntaxError{Msg: msg}
	}
}

// shownCharsMax bounds a name or value that the builder shows in a message.
const shownCharsMax = 1024

// shown returns a name or value of the statement as a message shows it: completely or, if it is too long, not at all,
// because redactMessage would not find a secret that is cut.
func shown(text string) string {
	if len(text) > shownCharsMax {
		return "..."
	}
	return text
}

// failAt records an error at a token that Cassandra's grammar does not allow at this place. expected is the only kind
// of token that it allows, or antlr.TokenInvalidType if there are several.
func (b *builder) failAt(token antlr.Token, expected int) {
	if b.err == nil {
		b.err = b.parser.failureError(&failure{offending: token, decision: token.GetTokenIndex(),
			expected: expected})
	}
}

// enterOperators begins a sum or product, whose children are operands with operators between them. It returns false if
// the AST would become too deep.
func (b *builder) enterOperators(children []antlr.Tree) bool {
	// n operands have n-1 operators between them: 2n-1 children.
	b.operators += len(children) / 2
	if b.operators <= operatorsMax {
		return true
	}
	// The caller does not build the operands and does not call leaveOperators.
	b.operators -= len(children) / 2
	b.fail(fmt.Sprintf("Expression has more than %d operators", operatorsMax))
	return false
}

// leaveOperators ends what enterOperators began.
func (b *builder) leaveOperators(children []antlr.Tree) { b.operators -= len(children) / 2 }

// statement builds the statement of a tree. It panics for a rule of the grammar that has no builder.
func (b *builder) statement(ctx grammar.IStatementContext) Statement {
	// The three share one builder, which numbers all markers in one sequence.
	data, definitions, roles := dataBuilder{b}, schemaBuilder{b}, roleBuilder{b}
	switch c := ctx.GetChild(0).(type) {
	case *grammar.SelectStatementContext:
		return data.selectStatement(c)
	case *grammar.InsertContext:
		return data.insert(c)
	case *grammar.UpdateContext:
		return data.update(c)
	case *grammar.DeleteContext:
		return data.delete(c)
	case *grammar.BatchContext:
		return data.batch(c)
	case *grammar.UseContext:
		return &Use{Keyspace: name(c.Ident())}
	case *grammar.TruncateContext:
		return &Truncate{Table: tableName(c.TableName()), Timeout: data.timeoutClause(c.TimeoutClause())}
	case *grammar.CreateContext:
		return b.create(c)
	case *grammar.AlterContext:
		return b.alter(c)
	case *grammar.DropContext:
		return b.drop(c)
	case *grammar.GrantContext:
		return roles.grant(c)
	case *grammar.RevokeContext:
		return roles.revoke(c)
	case *grammar.ListContext:
		return roles.list(c)
	case *grammar.AddIdentityContext:
		return roles.addIdentity(c)
	case *grammar.DescribeContext:
		return definitions.describe(c)
	case *grammar.CommentOnContext:
		return definitions.commentOn(c)
	case *grammar.SecurityLabelOnContext:
		return definitions.securityLabelOn(c)
	case *grammar.UndropTableContext:
		return definitions.undropTable(c)
	case *grammar.PurgeTableContext:
		return &PurgeTable{Table: tableName(c.TableName()), IfExists: c.IfExists() != nil,
			Properties: definitions.properties(c.Properties())}
	case *grammar.UndropKeyspaceContext:
		return definitions.undropKeyspace(c)
	case *grammar.PurgeKeyspaceContext:
		return &PurgeKeyspace{Keyspace: name(c.Ident()), IfExists: c.IfExists() != nil,
			Properties: definitions.properties(c.Properties())}
	}
	// Not reached unless the grammar gets a rule that has no case here.
	panic("cql: a rule of statement has no builder")
}

// create builds CREATE …. The second child is the rule of the object that is created. It panics for a rule that has no
// case, as statement does.
func (b *builder) create(ctx *grammar.CreateContext) Statement {
	definitions, roles := schemaBuilder{b}, roleBuilder{b}
	switch c := ctx.GetChild(1).(type) {
	case *grammar.CreateKeyspaceContext:
		return &CreateKeyspace{
			Keyspace:    name(c.Ident()),
			IfNotExists: c.IfNotExists() != nil,
			Properties:  definitions.properties(c.Properties()),
		}
	case *grammar.CreateTableContext:
		return definitions.createTable(c)
	case *grammar.CreateTypeContext:
		return definitions.createType(c)
	case *grammar.CreateIndexContext:
		return definitions.createIndex(c)
	case *grammar.CreateMaterializedViewContext:
		return definitions.createMaterializedView(c)
	case *grammar.CreateFunctionContext:
		return definitions.createFunction(c)
	case *grammar.CreateAggregateContext:
		return definitions.createAggregate(c)
	case *grammar.CreateTriggerContext:
		return &CreateTrigger{
			IfNotExists: c.IfNotExists() != nil,
			Name:        name(c.Ident()),
			Table:       tableName(c.TableName()),
			Using:       stringText(c.STRING_LITERAL().GetText()),
		}
	case *grammar.CreateRoleContext:
		return &CreateRole{
			Role:        roleName(c.RoleName()),
			IfNotExists: c.IfNotExists() != nil,
			Options:     roles.roleOptions(c.AllRoleOption()),
		}
	case *grammar.CreateUserContext:
		return &CreateRole{
			// Users have fewer options than roles: a password, and SUPERUSER or NOSUPERUSER.
			User:        true,
			Role:        roles.userName(c.UserName(), userNameQuoted),
			IfNotExists: c.IfNotExists() != nil,
			Options:     userOptions(c.UserPassword(), c.K_SUPERUSER() != nil, c.K_NOSUPERUSER() != nil),
		}
	}
	panic("cql: a rule of create has no builder")
}

// alter builds ALTER …. The second child is the rule of the object that is altered.
func (b *builder) alter(ctx *grammar.AlterContext) Statement {
	definitions, roles := schemaBuilder{b}, roleBuilder{b}
	switch c := ctx.GetChild(1).(type) {
	case *grammar.AlterKeyspaceContext:
		return &AlterKeyspace{Keyspace: name(c.Ident()), IfExists: c.IfExists() != nil,
			Properties: definitions.properties(c.Properties())}
	case *grammar.AlterTableContext:
		return definitions.alterTable(c)
	case *grammar.AlterTypeContext:
		return definitions.alterType(c)
	case *grammar.AlterMaterializedViewContext:
		return &AlterMaterializedView{
			View:     tableName(c.TableName()),
			IfExists: c.IfExists() != nil,
			// ALTER has properties only: its rule has neither CLUSTERING ORDER BY nor COMPACT STORAGE.
			Options: TableOptions{Properties: definitions.properties(c.Properties())},
		}
	case *grammar.AlterRoleContext:
		return &AlterRole{Role: roleName(c.RoleName()), IfExists: c.IfExists() != nil,
			Options: roles.roleOptions(c.AllRoleOption())}
	case *grammar.AlterUserContext:
		return &AlterRole{
			User:     true,
			Role:     roles.userName(c.UserName(), userNameQuoted),
			IfExists: c.IfExists() != nil,
			Options:  userOptions(c.UserPassword(), c.K_SUPERUSER() != nil, c.K_NOSUPERUSER() != nil),
		}
	}
	panic("cql: a rule of alter has no builder")
}

// drop builds DROP …. The second child is the rule of the object that is dropped.
func (b *builder) drop(ctx *grammar.DropContext) Statement {
	roles := roleBuilder{b}
	switch c := ctx.GetChild(1).(type) {
	case *grammar.DropKeyspaceContext:
		return &DropKeyspace{Keyspace: name(c.Ident()), IfExists: c.IfExists() != nil}
	case *grammar.DropTableContext:
		return &DropTable{Table: tableName(c.TableName()), IfExists: c.IfExists() != nil}
	case *grammar.DropTypeContext:
		return &DropType{Type: b.typeName(c.TypeName()), IfExists: c.IfExists() != nil}
	case *grammar.DropIndexContext:
		return &DropIndex{Index: tableName(c.TableName()), IfExists: c.IfExists() != nil}
	case *grammar.DropMaterializedViewContext:
		return &DropMaterializedView{View: tableName(c.TableName()), IfExists: c.IfExists() != nil}
	// f and f() differ: without parentheses the name alone must be unique.
	case *grammar.DropFunctionContext:
		args, hasArgs := b.argumentTypes(c.ArgumentTypes())
		return &DropFunction{IfExists: c.IfExists() != nil, Name: functionName(c.FunctionName()), Args: args,
			HasArgs: hasArgs}
	case *grammar.DropAggregateContext:
		args, hasArgs := b.argumentTypes(c.ArgumentTypes())
		return &DropAggregate{IfExists: c.IfExists() != nil, Name: functionName(c.FunctionName()), Args: args,
			HasArgs: hasArgs}
	case *grammar.DropTriggerContext:
		return &DropTrigger{IfExists: c.IfExists() != nil, Name: name(c.Ident()), Table: tableName(c.TableName())}
	case *grammar.DropRoleContext:
		return &DropRole{Role: roleName(c.RoleName()), IfExists: c.IfExists() != nil}
	case *grammar.DropUserContext:
		return &DropRole{User: true, Role: roles.userName(c.UserName(), userNameQuoted), IfExists: c.IfExists() != nil}
	case *grammar.DropIdentityContext:
		return &DropIdentity{Identity: roles.userName(c.UserName(), identityQuoted), IfExists: c.IfExists() != nil}
	}
	panic("cql: a rule of drop has no builder")
}

// ---- Names ----

// starter is the part of every rule's context that the builder uses.
type starter interface{ GetStart() antlr.Token }

// name returns the name in a rule that consists of one token. Its only token may be a keyword that is not reserved.
func name(ctx starter) string { return identifier(ctx.GetStart()) }

// identifier returns the name of a token: unchanged if quoted, otherwise in lower case. The result has no quotes, and
// doubled quotes inside are one.
func identifier(token antlr.Token) string {
	switch token.GetTokenType() {
	case grammar.CqlLexerQUOTED_NAME:
		return unquote(token.GetText(), `"`)
	// Cassandra accepts "" as a name in the grammar. No object can have it.
	case grammar.CqlLexerEMPTY_QUOTED_NAME:
		return ""
	}
	// Names without quotes are folded, also keywords that are used as names.
	return strings.ToLower(token.GetText())
}

// names returns one name for each context.
func names[C starter](all []C) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = name(c)
	}
	return out
}

// qualified returns the name between two tokens: one identifier, or two with a dot between them. The names are not
// looked up, so a keyspace need not exist.
func qualified(start, stop antlr.Token) QualifiedName {
	// The same token, not only an equal one, so there is no dot.
	if start == stop {
		return QualifiedName{Name: identifier(start)}
	}
	return QualifiedName{Keyspace: identifier(start), Name: identifier(stop)}
}

// tableName returns the name of a table, a view or an index, with its keyspace if it has one.
func tableName(ctx grammar.ITableNameContext) QualifiedName {
	return qualified(ctx.GetStart(), ctx.GetStop())
}

// functionName returns the name of a function or aggregate. Keywords that are functions are names here.
func functionName(ctx grammar.IFunctionNameContext) QualifiedName {
	// Without a keyspace, package query searches native functions and the session's keyspace.
	return qualified(ctx.GetStart(), ctx.GetStop())
}

// stringText returns the content of a string literal. In $$…$$ nothing is escaped; in '…' a doubled quote is one.
func stringText(text string) string {
	// The lexer returns a string without its end as another token, so both quotes are there.
	if text[0] == '$' {
		return text[2 : len(text)-2]
	}
	return unquote(text, "'")
}

// tokenOf returns the token of a child of the tree, or nil if it is a rule.
func tokenOf(child antlr.Tree) antlr.Token {
	if leaf, ok := child.(antlr.TerminalNode); ok {
		return leaf.GetSymbol()
	}
	return nil
}

// kindOf returns the type of a child's token, or antlr.TokenInvalidType.
func kindOf(child antlr.Tree) int {
	if token := tokenOf(child); token != nil {
		return token.GetTokenType()
	}
	return antlr.TokenInvalidType
}
