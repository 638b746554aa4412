package udf

import (
	"cmp"
	"time"

	"cqld/udf/value"
)

// The default bounds of functions.
const (
	// stepsMax and bytesMax bound one call. A step takes 20 ns to 200 ns.
	stepsMax = 5_000_000
	bytesMax = 64 << 20
	// outputMax bounds the result of one call, which is stored in rows and sent to clients.
	outputMax = 16 << 20
	// warnTime and timeMax are Cassandra's user_defined_functions_warn_timeout and user_defined_functions_fail_timeout.
	warnTime = 500 * time.Millisecond
	timeMax  = 1500 * time.Millisecond
	// bodyBytesMax bounds the text of a function.
	bodyBytesMax = 64 << 10
	// programsMax bounds the compiled functions that are kept.
	programsMax = 512
)

func defaultLimits(l value.Limits) value.Limits {
	l.Steps = cmp.Or(l.Steps, stepsMax)
	l.Bytes = cmp.Or(l.Bytes, bytesMax)
	l.Output = cmp.Or(l.Output, outputMax)
	l.Warn = cmp.Or(l.Warn, warnTime)
	l.Time = cmp.Or(l.Time, timeMax)
	return l
}
