package ballot

import "cqld/ring"

// Ballot numbers an attempt. Acceptors compare only the time. If two nodes use the same time, a quorum promises to at
// most one of them, so a timestamp never has two values.
type Ballot struct {
	Micros int64 // greater than zero; also the timestamp of the proposed change
	Node   ring.NodeID
}

// Present reports whether there is a ballot.
func (b Ballot) Present() bool { return b.Micros > 0 }

// After reports whether b is later than o.
func (b Ballot) After(o Ballot) bool { return b.Micros > o.Micros }

// Latest returns the later of two ballots.
func (b Ballot) Latest(o Ballot) Ballot {
	if o.After(b) {
		return o
	}
	return b
}
