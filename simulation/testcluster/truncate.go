package testcluster

import (
	"time"

	"cqld/coordinator"
)

// truncationTimeout bounds each phase of Truncate.
const truncationTimeout = time.Second

// Truncate prepares and then executes a truncation at a replica, like a coordinator. It calls done with the error of
// the phase that failed, or with nil. The first phase makes the replica refuse writes that were sent before, the second
// removes the rows. x needs no Phase.
func Truncate(r coordinator.Replica, epoch uint64, x coordinator.Truncation, done func(error)) {
	prepare := x
	prepare.Phase = coordinator.TruncationPrepare
	r.Truncate(epoch, prepare, truncationTimeout, func(err error) {
		if err != nil {
			done(err)
			return
		}
		r.Truncate(epoch, x, truncationTimeout, done)
	})
}
