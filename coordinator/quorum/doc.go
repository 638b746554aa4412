// Package quorum counts the answers of replicas until a consistency level is met, or cannot be met any more.
//
// It sends no requests: package coordinator tells it which replicas may answer, which are asked, and which answered or
// failed.
//
//	Tally ──┬─▶ Quota  replicas of now            "need 3: got 2, open 1"
//	        └─▶ Quota  replicas after (or before) the pending change of the ring
//
// A level is one quota on each side; EACH_QUORUM is one for each data center on each side.
package quorum
