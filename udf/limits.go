package udf

import (
	"cmp"
	"time"

	"cqld/udf/value"
)

// The default bounds of functions.
const (
	// stepsMax and bytesMax bound one call. A step takes 20 to 200 ns.
	stepsMax = 5_000_000
	bytesMax = 64 << 20
	// outputMax bounds the result of one call, which is stored in rows and sent to clients.
	outputMax = 16 << 20
	// warnTime and timeMax are Cassandra's user_defined_functions_warn_timeout and user_defined_functions_fail_timeout.
	warnTime = 500 * time.Millisecond
	timeMax  = 1500 * time.Millisecond
	// bodyBytesMax bounds the text of a function.
	bodyBytesMax = 64 << 10
	// programsMax and programBytesMax bound the cached programs. A source of 64 KiB counts as 4 MiB, and the largest
	// module as 10 MiB, so 6 of the largest or 512 of usual size fit.
	programsMax     = 512
	programBytesMax = 64 << 20
	// compilerBytes is the memory of a Lua or Java compiler in addition to the program.
	compilerBytes = 64 << 10
	// programBytes and bytesPerSourceByte estimate the memory of a program: a syntax tree has some 64 bytes for each
	// byte of its text.
	programBytes       = 32 << 10
	bytesPerSourceByte = 64
	// idleBytesMax bounds the idle instances of WebAssembly modules.
	idleBytesMax = 32 << 20
	// Programs, and idle instances, may use at most 1/keptDivisor of the memory for functions.
	keptDivisor = 8
	// waitingMax bounds the requests of a role that wait for the compiler, and ownersMax the number of waiting roles.
	// The compiler handles one module at a time, which takes at most 2 s.
	waitingMax = 64
	ownersMax  = 64
	// aliasesMax bounds the equal functions, of different versions of the schema, that are found without a comparison.
	aliasesMax = 4
)

// defaultLimits returns limits with a default in place of each zero. It does not check that the values are positive.
func defaultLimits(l value.Limits) value.Limits {
	// Zero means the default, so limits cannot be disabled.
	l.Steps = cmp.Or(l.Steps, stepsMax)
	l.Bytes = cmp.Or(l.Bytes, bytesMax)
	l.Output = cmp.Or(l.Output, outputMax)
	l.Warn = cmp.Or(l.Warn, warnTime)
	l.Time = cmp.Or(l.Time, timeMax)
	return l
}
