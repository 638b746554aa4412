package odata

import (
	"slices"
	"strings"
)

// ParseSelect reads $select, without percent escapes: names with commas between them, each once. None, or
// *, is all (nil). Errors: InvalidInput, also for more names than an entity can have.
func ParseSelect(value string, l *Limits) ([]string, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if name == "*" {
			return nil, nil
		}
		if !identifier(name) || len(names) >= l.Properties+3 {
			return nil, newError(InvalidInput)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
