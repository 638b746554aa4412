package udf

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"cqld/internal/guard"
	"cqld/schema"
	"cqld/types"
)

// TestPanicsOfCompilersAreRefusals compiles a function on which the compiler panics, because an argument has no type:
// the function is refused, the panic is logged with its stack, and the runtime compiles others.
func TestPanicsOfCompilersAreRefusals(t *testing.T) {
	var log strings.Builder
	r := New(Options{Guard: guard.New(slog.New(slog.NewTextHandler(&log, nil)))})
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
	if !strings.Contains(log.String(), "runtime error") || !strings.Contains(log.String(), "compile") {
		t.Errorf("the log has %q", log.String())
	}
	if n := r.o.Guard.Counts()["user-defined function"]; n == 0 || strings.Contains(failure.Msg, "runtime error") {
		t.Errorf("%d panics; the client gets %q", n, failure.Msg)
	}
	f = &schema.Function{Keyspace: "ks", Name: "g", Language: Java, Body: "return 1;", Returns: types.Native(types.Int)}
	if err := r.Check(context.Background(), "role", f); err != nil {
		t.Error(err)
	}
}
