package cluster

import (
	"slices"
	"strings"
	"testing"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// TestNodesJoinWithTheirInitialTokens founds a cluster and joins nodes with given tokens. Tokens of another node are
// refused; a node keeps its own when it restarts.
func TestNodesJoinWithTheirInitialTokens(t *testing.T) {
	first := newTestNode(t, 1)
	first.tokens = []ring.Token{300, -100}
	first.mustOpen()
	owned := func(n *testNode) []ring.Token { return first.Metadata().Topology.Node(n.Self()).Tokens }
	if got := owned(first); !slices.Equal(got, []ring.Token{-100, 300}) {
		t.Errorf("the founder has the tokens %v", got)
	}
	second := newTestNode(t, 2, first.addr)
	second.tokens = []ring.Token{7}
	second.mustOpen()
	if got := owned(second); !slices.Equal(got, []ring.Token{7}) {
		t.Errorf("the second node has the tokens %v", got)
	}
	third := newTestNode(t, 3, first.addr)
	third.tokens = []ring.Token{8, 300}
	if err := third.open(); err == nil || !strings.Contains(err.Error(), "token 300 is owned by node") {
		t.Errorf("a token of another node: %v", err)
	}
	second.stop()
	second.mustOpen()
	if got := owned(second); !slices.Equal(got, []ring.Token{7}) {
		t.Errorf("after a restart, the second node has the tokens %v", got)
	}
}

func TestSpecWithOtherNumberOfTokensIsRefused(t *testing.T) {
	spec := metadata.NodeSpec{NumTokens: 16, Tokens: []ring.Token{1, 2}}
	if err := checkSpec(&spec, spec.Internode.Addr()); err == nil ||
		!strings.Contains(err.Error(), "initial_token has 2 tokens, and num_tokens is 16") {
		t.Errorf("%v", err)
	}
}
