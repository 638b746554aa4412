package odata

import (
	"slices"
	"strings"
)

// ParseSelect parses $select, without percent escapes: names separated by commas, of which it keeps one each. None, or
// *, means all (nil). Errors: InvalidInput, also for more names than an entity can have properties. The order of the
// first occurrences is kept. Names are case-sensitive. A system property may be among them. For example, "a, b,a" has
// the names a and b.
func ParseSelect(value string, l *Limits) ([]string, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		// Also beside other names.
		if name == "*" {
			return nil, nil
		}
		// Three more for the system properties. Names need not exist in any entity.
		if !identifier(name) || len(names) >= l.Properties+3 {
			return nil, newError(InvalidInput)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
