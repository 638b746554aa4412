// Package quorum counts the answers of replicas until a consistency level is met, or can no longer be met.
//
// It sends no requests: package coordinator reports to it which replicas may answer, which have been asked, and which
// answered or failed.
//
//	Tally ──┬─▶ Quota  replicas of now            "need 3: got 2, open 1"
//	        └─▶ Quota  replicas after (or before) the pending change of the ring
//
// A level is one quota on each side; EACH_QUORUM is one for each data center on each side.
package quorum
