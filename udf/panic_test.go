package udf

import (
	"context"
	"errors"
	"testing"

	"cqld/schema"
	"cqld/types"
)

// TestPanicsOfCompilersAreRefusals compiles a function on which the compiler panics, because an argument has no type:
// the function is refused, and the runtime compiles others.
func TestPanicsOfCompilersAreRefusals(t *testing.T) {
	r := New(Options{})
	f := &schema.Function{Keyspace: "ks", Name: "f", Language: Java, Body: "return 1;", ArgNames: []string{"a"},
		Returns: types.Native(types.Int)}
	var refused *Refused
	if err := r.Check(context.Background(), "role", f); !errors.As(err, &refused) {
		t.Errorf("the check returns %v", err)
	}
	var failure *Failure
	if _, _, err := r.Call(f, [][]byte{nil}); !errors.As(err, &failure) {
		t.Errorf("the call returns %v", err)
	}
	f = &schema.Function{Keyspace: "ks", Name: "g", Language: Java, Body: "return 1;", Returns: types.Native(types.Int)}
	if err := r.Check(context.Background(), "role", f); err != nil {
		t.Error(err)
	}
}
