package counters

// Limits are the bounds of counter updates. Zero means the default.
type Limits struct {
	// Names bounds the updates of one other node that a leader records, so that it counts no update twice. At 10,000
	// updates a second from one coordinator, they cover 0.4 s, and messages of a connection do not overtake each other.
	// Each takes 100 bytes: 400 KiB for a node.
	Names int
	// Group bounds the updates of one partition that are led together: at 1 ms for a sync, a partition takes 128,000 a
	// second.
	Group int
}

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	if l.Names == 0 {
		l.Names = 4_096
	}
	if l.Group == 0 {
		l.Group = 128
	}
	return l
}
