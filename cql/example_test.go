package cql_test

import (
	"fmt"

	"cqld/cql"
)

func ExampleParse() {
	statement, err := cql.Parse("select Name, \"Age\" from ks.people where id = ? limit 10")
	if err != nil {
		fmt.Println(err)
		return
	}
	if s, ok := statement.(*cql.Select); ok {
		fmt.Println(s.Table, len(s.Columns))
	}

	_, err = cql.Parse("select * form people")
	fmt.Println(err)
	// Output:
	// ks.people 2
	// line 1:9 mismatched input 'form' expecting K_FROM (select * [form]...)
}
