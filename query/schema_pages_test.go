package query

import (
	"bytes"
	"fmt"
	"testing"
)

// TestSchemaPagesAreComplete reads tables of the schema and of the roles in pages of several sizes, and compares the
// rows with an unpaged result. Overloaded functions share a name: a page that ends among them must not lose rows.
func TestSchemaPagesAreComplete(t *testing.T) {
	l := newLargeSchema(t)
	for name, kind := range enlargements() {
		if name != "columns" && name != "fields" {
			kind.add(l, 12)
		}
	}
	for _, args := range []string{"text", "bigint", "int, int", "double", "blob"} {
		var declared string
		for i, arg := range bytes.Split([]byte(args), []byte(", ")) {
			declared += fmt.Sprintf(", a%d %s", i, arg)
		}
		l.run("CREATE FUNCTION f5 (" + declared[2:] + ") CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'")
	}
	tables := []string{"system_auth.roles", "system_auth.role_members", "system_auth.role_permissions",
		"system_auth.cidr_permissions", "system_auth.network_permissions"}
	for _, name := range l.n.schema.Keyspace("system_schema").TableNames() {
		tables = append(tables, "system_schema."+name)
	}
	for _, table := range tables {
		all := l.rows(t, "SELECT * FROM "+table, 100_000)
		for _, size := range []int32{1, 2, 3, 7, 10} {
			if paged := l.rows(t, "SELECT * FROM "+table, size); !bytes.Equal(paged, all) {
				t.Errorf("%s in pages of %d rows: %d bytes, in one page %d", table, size, len(paged), len(all))
			}
		}
	}
}

// rows returns the encoded rows of all pages.
func (l *largeSchema) rows(t *testing.T, text string, size int32) []byte {
	var all []byte
	params := &Params{PageSize: size}
	for {
		result, err := l.p.Query(alice(), l.s, text, params)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, result.Rows...)
		if params.PagingState = result.PagingState; params.PagingState == nil {
			return all
		}
	}
}
