package auth_test

import (
	"context"
	"fmt"

	"cqld/auth"
)

// grants is an Authorizer with a table of permissions. A permission on a resource includes everything below it.
type grants map[auth.Principal]map[auth.Requirement]bool

// Authorize implements auth.Authorizer.
func (g grants) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	for at, ok := need.Resource, true; ok; at, ok = at.Parent() {
		if g[p][auth.Requirement{Permission: need.Permission, Resource: at}] {
			return nil
		}
	}
	return &auth.Denied{Principal: p, Requirement: need}
}

func ExampleAuthorizer() {
	ada := auth.Principal{Name: "ada"}
	var a auth.Authorizer = grants{ada: {
		{Permission: auth.Select, Resource: auth.Keyspace("shop")}:        true,
		{Permission: auth.Modify, Resource: auth.Table("shop", "orders")}: true,
	}}
	for _, need := range []auth.Requirement{
		{Permission: auth.Select, Resource: auth.Table("shop", "orders")},
		{Permission: auth.Modify, Resource: auth.Table("shop", "orders")},
		{Permission: auth.Modify, Resource: auth.Table("shop", "clients")},
	} {
		fmt.Println(need, a.Authorize(context.Background(), ada, need))
	}
	fmt.Println(a.Authorize(context.Background(), auth.Principal{},
		auth.Requirement{Permission: auth.Select, Resource: auth.Keyspace("shop")}))
	// Output:
	// SELECT on <table shop.orders> <nil>
	// MODIFY on <table shop.orders> <nil>
	// MODIFY on <table shop.clients> User ada has no MODIFY permission on <table shop.clients> or any of its parents
	// User anonymous has no SELECT permission on <keyspace shop> or any of its parents
}
