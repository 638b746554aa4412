//go:build integration

package integration

import (
	"regexp"
	"slices"
	"strings"
)

// refusedState matches a SELECT with a paging state that Cassandra refuses before it evaluates the statement. cqld
// evaluates the statement first, and takes an empty state for none.
func (c *comparison) refusedState() bool {
	return strings.HasPrefix(c.want, "PROTOCOL_ERROR: Invalid value for the paging state\n") &&
		c.hasOption("state=") && strings.Contains(c.input, "SELECT ") && (c.hasOption("state=0x\n") || !isRows(c.got))
}

// serialPages matches a SELECT of several partitions at a serial level, in pages.
func (c *comparison) serialPages() bool {
	return isRows(c.want) && c.hasOption("page=") &&
		strings.HasPrefix(c.got, "INVALID: SERIAL/LOCAL_SERIAL consistency may only be requested for one partition")
}

// nodeLocal matches a BATCH message at NODE_LOCAL. Cassandra evaluates its statements, and then answers a server error.
func (c *comparison) nodeLocal() bool {
	return strings.HasPrefix(c.input, "batch ") && c.hasOption("consistency=11\n") &&
		strings.HasPrefix(c.want, "INVALID: ") && strings.HasPrefix(c.got, "INVALID: NODE_LOCAL ")
}

// timedOut matches a write whose failure of Java ends in a time-out, or in a hint at ANY, unless the level is refused
// before it.
func (c *comparison) timedOut() bool {
	if !strings.HasPrefix(c.got, "INVALID: Invalid null value in ") {
		return false
	}
	return strings.HasPrefix(c.want, "WRITE_TIMEOUT: ") || strings.HasPrefix(c.want, "UNAVAILABLE: ") ||
		strings.HasPrefix(c.want, "INVALID: consistency level EACH_QUORUM not compatible with ") ||
		strings.HasPrefix(c.want, "ok\n") && c.hasOption("consistency=any\n")
}

// unsetSelected matches a selected marker of a collection without a value: Cassandra returns an empty value, which is
// malformed, and cqld null.
func (c *comparison) unsetSelected() bool {
	malformed := regexp.MustCompile(`malformed [^|\n]* 0x`)
	return strings.Contains(c.input, " unset") && strings.Contains(c.input, "SELECT ") && isRows(c.want) &&
		c.want != c.got && malformed.ReplaceAllString(c.want, "null") == c.got
}

// jsonErrors matches messages of errors in JSON.
func (c *comparison) jsonErrors() bool {
	const start = "INVALID: Could not decode JSON string as a map: "
	return strings.HasPrefix(c.want, start+"com.fasterxml.") && strings.HasPrefix(c.got, start)
}

// hasOption reports whether an option of the block begins with prefix, or, with a newline at its end, is equal to it.
func (c *comparison) hasOption(prefix string) bool {
	return slices.ContainsFunc(c.options, func(o string) bool { return strings.HasPrefix(o+"\n", prefix) })
}

func isRows(answer string) bool { return strings.Contains(answer, " rows)") }
