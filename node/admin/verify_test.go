package admin

import "testing"

// TestCheckpointsOfVerifications decodes checkpoints of jobs, and malformed bytes.
func TestCheckpointsOfVerifications(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "\x00\x00\x00\x00\x00\x00\x01\x02": 258} {
		if got, err := checkpointFile([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	if _, err := checkpointFile([]byte("shop.orders")); err == nil {
		t.Error("a checkpoint of another kind of job is accepted")
	}
}
