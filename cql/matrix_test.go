package cql

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/antlr4-go/antlr/v4"
	"github.com/cockroachdb/datadriven"

	"cqld/internal/matrix"
)

// valueRules returns the rules of the grammar that do not affect permissions: names, values, types and selections. The
// permission matrix need not contain each of their productions.
func valueRules() []string {
	return []string{"root", "term", "product", "simpleTerm", "terms", "udtField", "mapEntry", "constant",
		"integerValue", "marker", "selector",
		"selectorProduct", "selectorUnary", "selectorModifier", "simpleSelector", "mapSelectorEntry", "selectors",
		"selectColumn", "selectColumns",
		"columnConstraints", "columnConstraint", "columnDefault", "laterKeyword", "groupBy", "orderBy", "ordering",
		"perPartitionLimit", "limit", "allowFiltering", "whereClause", "indexExpression",
		"relation", "operator", "columnNames", "inValues", "tupleValue", "tupleInValues", "condition", "assignment",
		"assignmentValue",
		"deleteTarget", "jsonValue", "propertyValue", "property", "properties", "tableOption", "clusteringOrder",
		"tableElement", "primaryKey",
		"partitionKey", "columnMask", "keyspaceKeyword", "addedColumn", "rename", "fieldDefinition", "argumentTypes",
		"indexTarget", "stringSet",
		"dataType", "ifNotExists", "ifExists", "tableName", "typeName", "functionName", "roleName", "userName",
		"ident", "columnName", "typeIdent",
		"functionIdent", "keyword", "basicKeyword", "nativeType"}
}

// TestPermissionMatrixVisitsTheGrammar checks that the permission matrix contains every production of the grammar's
// rules of statements: a new kind of statement, or a new variant of one, needs a row.
func TestPermissionMatrixVisitsTheGrammar(t *testing.T) {
	files, err := filepath.Glob("../internal/matrix/testdata/rows/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("the permission matrix has no rows", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			r, err := matrix.ParseRow(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			p := newParser()
			p.read(strings.ReplaceAll(r.Statement, matrix.Me, "me"))
			if tree, ok := p.tree(antlr.PredictionModeLL); ok {
				visit(tree, seen)
			}
			return d.Expected
		})
	}
	// Punctuation, and what hardly any statement differs in.
	optional := regexp.MustCompile(` > (ifExists|ifNotExists|K_PERMISSIONS?|K_AND|COMMA|SEMICOLON|[LR](PAREN|BRACE|BRACKET))$`)
	// Cassandra 5.0, which answered the statements of the matrix, does not have these.
	later := []string{"list > K_SUPERUSERS", "roleOption > K_GENERATED", "userPassword > K_GENERATED",
		"createTable > K_LIKE",
		"createTable > likeOption", "selectStatement > offset", "selectStatement > K_MUTATION_FRAGMENTS",
		"selectStatement > timeoutClause", "truncate > timeoutClause",
		"usingOption > usingTimeout", "deleteUsing > usingTimeout", "statement > commentOn",
		"statement > securityLabelOn", "statement > undropTable", "statement > purgeTable",
		"statement > undropKeyspace", "statement > purgeKeyspace",
		"alterTable > columnConstraints",
		"alterTable > columnDefault", "alterTable > K_SET", "alterTable > K_CHECK", "alterTable > K_DEFAULT",
		"alterTable > K_UNDROP", "alterTable > K_PURGE"}
	laterRules := []string{"offset", "timeoutClause", "usingTimeout", "likeOption", "commentOn", "securityLabelOn",
		"commented", "memberName", "undropTable", "purgeTable", "undropKeyspace", "purgeKeyspace"}
	for _, production := range productions(t) {
		rule, _, _ := strings.Cut(production, " > ")
		if slices.Contains(later, production) || slices.Contains(laterRules, rule) {
			continue
		}
		if !slices.Contains(valueRules(), rule) && !seen[production] && !optional.MatchString(production) {
			t.Errorf("the permission matrix has no statement with %s", production)
		}
	}
}
