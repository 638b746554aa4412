package query

import "cqld/query/function"

// unsupported is the error for syntax that is only parsed.
func unsupported(what string) error { return function.NotSupported(what) }
