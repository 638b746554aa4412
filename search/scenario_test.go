package search_test

import (
	"testing"

	"cqld/simulation/scenario"
)

// TestScenarios plays the scenario files of this package.
func TestScenarios(t *testing.T) { scenario.Run(t, "testdata/scenarios") }
