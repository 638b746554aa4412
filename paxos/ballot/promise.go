package ballot

// Promise is an acceptor's answer to Prepare.
type Promise struct {
	// Refused reports that the acceptor has already promised the ballot Promised, which is not earlier than the
	// requested one.
	Refused bool
	// Unchanged reports that nothing was promised, because the acceptor knows no ballot after the previous one. Of the
	// other fields, only Page is then set.
	Unchanged bool
	Promised  Ballot
	Accepted  Proposal // the latest accepted proposal that is not known to be decided
	Commit    Proposal // the latest decided proposal
	// LowBound is the low bound: decisions up to this ballot may be purged (View.PaxosFloor).
	LowBound Ballot
	Page     []byte // answer to the command; nil if refused
}
