package simulation

import "testing"

// TestSimOrdered runs listings in key order alone.
func TestSimOrdered(t *testing.T) {
	runAlone(t, alone(), 10, func(o *Options) { o.Workloads = []string{"ordered"} })
}
