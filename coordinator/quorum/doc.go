// Package quorum counts the answers of replicas until a consistency level is met, or cannot be met any more.
//
// It asks nobody and knows no request: coordinator tells it who may answer, who is asked, and who answered or failed.
//
//	Tally ──┬─▶ Quota  replicas of now            "need 3: got 2, open 1"
//	        └─▶ Quota  replicas after (or before) the change of the ring that is under way
//
// A level is one quota on each side; EACH_QUORUM is one for each data center on each side.
package quorum
