package schema_test

import (
	"errors"
	"fmt"

	"cqld/ring"
	"cqld/schema"
	"cqld/schema/refused"
	"cqld/types"
)

// A schema does not change. Apply returns the next one, or the reason why the change is invalid.
func ExampleApply() {
	table := &schema.CreateTable{Keyspace: "shop", Table: "orders", ID: schema.UUID{1},
		Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{
			{Name: "customer", Kind: schema.PartitionKey, Type: types.Native(types.Text)},
			{Name: "id", Kind: schema.Clustering, Type: types.Native(types.Int)},
			{Name: "item", Kind: schema.Regular, Type: types.Native(types.Text)},
		}}
	before := schema.Empty()
	after := before
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "shop", Replication: ring.Replication{Class: ring.Simple, Factor: 3},
			DurableWrites: true},
		table,
	} {
		next, err := schema.Apply(after, c)
		if err != nil {
			fmt.Println(err)
			return
		}
		after = next
	}
	fmt.Println(before.KeyspaceNames(), after.KeyspaceNames(), before.Version() == after.Version())
	for _, c := range after.Table("shop", "orders").Columns() {
		fmt.Println(c.Name, c.Kind, c.Type)
	}

	_, err := schema.Apply(after, table)
	var exists *refused.Exists
	fmt.Println(errors.As(err, &exists), err)
	_, err = schema.Apply(after, &schema.DropTable{Keyspace: "shop", Table: "customers"})
	fmt.Println(err)
	// Output:
	// [] [shop] false
	// customer partition_key text
	// id clustering int
	// item regular text
	// true Table 'shop.orders' already exists
	// Table 'shop.customers' doesn't exist
}

// Diff describes the differences between two schemas in the terms of a SCHEMA_CHANGE event.
func ExampleDiff() {
	before, err := schema.Apply(schema.Empty(), &schema.CreateKeyspace{Keyspace: "old",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := schema.Apply(schema.Empty(), &schema.CreateKeyspace{Keyspace: "new",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range schema.Diff(before, after) {
		fmt.Println(e.Change, e.Target, e.Keyspace)
	}
	// Output:
	// DROPPED KEYSPACE old
	// CREATED KEYSPACE new
}
