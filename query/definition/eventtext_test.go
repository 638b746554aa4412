package definition

import (
	"slices"
	"testing"

	"cqld/types"
)

// TestEventTexts checks the types of arguments in events against those that Cassandra 5.0.9 sends.
func TestEventTexts(t *testing.T) {
	fields := []*types.Type{types.Native(types.Int)}
	o := types.NewUDT("ks", "o", []string{"a"}, fields, true)
	args := []*types.Type{types.Native(types.Int), o, types.NewList(o, true)}
	want := []string{"int", "ks.o", "list<frozen<ks.o>>"}
	if got := eventTexts(args); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
