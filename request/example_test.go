package request_test

import (
	"context"
	"errors"
	"fmt"

	"cqld/auth"
	"cqld/request"
)

// readOnly allows everyone to read, and nothing else.
type readOnly struct{}

// Authorize implements auth.Authorizer.
func (readOnly) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	if need.Permission == auth.Select {
		return nil
	}
	return &auth.Denied{Principal: p, Requirement: need}
}

// The protocol servers check with an Executor whether the principal of a request has every permission that the request
// needs.
func ExampleExecutor_Authorize() {
	executor := request.New(request.Options{Authorizer: readOnly{}}) // a node also sets its coordinator and clock
	r := &request.Request{Context: context.Background(), Principal: auth.Principal{Name: "alice"}}
	orders := auth.Table("shop", "orders")

	fmt.Println(executor.Authorize(r, auth.Requirement{Permission: auth.Select, Resource: orders}))
	err := executor.Authorize(r, auth.Requirement{Permission: auth.Select, Resource: orders},
		auth.Requirement{Permission: auth.Modify, Resource: orders})
	var denied *auth.Denied
	fmt.Println(errors.As(err, &denied), err)
	// Output:
	// <nil>
	// true User alice has no MODIFY permission on <table shop.orders> or any of its parents
}
