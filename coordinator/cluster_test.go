package coordinator_test

import (
	"testing"

	"cqld/simulation/scenario"
)

// cluster is a cluster of a scenario with the steps of these tests.
type cluster struct{ *scenario.Cluster }

func newCluster(t *testing.T, o scenario.Options) *cluster { return &cluster{scenario.New(t, o)} }
