package schema

import "cqld/schema/refused"

// invalidf returns a *refused.Invalid for an invalid query.
func invalidf(format string, args ...any) error { return refused.Invalidf(format, args...) }

// misconfiguredf returns a *refused.Invalid for a configuration error.
func misconfiguredf(format string, args ...any) error { return refused.Misconfiguredf(format, args...) }
