package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTimeout bounds the time of porcupine for one history.
const checkTimeout = 10 * time.Second

// linearizable calls porcupine. It returns a violation, or an empty text.
func linearizable(model porcupine.Model, ops []porcupine.Operation, what string) string {
	switch porcupine.CheckOperationsTimeout(model, ops, checkTimeout) {
	case porcupine.Illegal:
		return fmt.Sprintf("%s is not linearizable over %d operations", what, len(ops))
	// A history that is too hard to check must not pass: the workload then has too many calls in progress.
	case porcupine.Unknown:
		return fmt.Sprintf("%s: the checker did not finish over %d operations", what, len(ops))
	}
	return ""
}
