package simulation

import (
	"testing"

	"cqld/simulation/kernel"
)

// TestSimLevels runs requests at all levels alone.
func TestSimLevels(t *testing.T) {
	runAlone(t, alone(), 10, func(o *Options) {
		o.drawShape(kernel.NewStream(o.Seed, "levels"))
		o.Workloads, o.Levels = []string{"levels"}, true
	})
}

// TestSimLocalSerialReachesAllDataCenters runs data centers of one replica each, whose only voter decides alone,
// without faults: a decided change must also be on the replicas of the others. In seed 162 it was not.
func TestSimLocalSerialReachesAllDataCenters(t *testing.T) {
	runAlone(t, 6, 10, func(o *Options) {
		o.Workloads, o.FaultKinds, o.Points = []string{"cas"}, []string{"flush"}, nil
		o.Nodes, o.Factor, o.Datacenters, o.Levels, o.ConvergeBy = 3, 2, []int{1, 1}, true, ByHints
		o.HintLimits.BytesPerNode, o.PaxosMargin = 0, 0
	})
}
