package ballot

import "errors"

// ErrNotAccepted means that an acceptor does not hold the proposal to which a commit refers: the commit must be resent
// with the update.
var ErrNotAccepted = errors.New("paxos: the proposal to be committed was not accepted here, or was superseded")

// ErrInDoubt means that the write of a decision failed after it began: the decision may be on disk.
var ErrInDoubt = errors.New("paxos: the change may be decided")

// ErrUnsettled means that a proposal is in progress that must be finished first.
var ErrUnsettled = errors.New("paxos: a proposal is in progress")
