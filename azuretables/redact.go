package azuretables

import (
	"net/url"
	"strings"
)

// redacted replaces the value of a signature in logs.
const redacted = "*******"

// redactQuery returns a query without the values of its signatures. The names of parameters are matched as leniently as
// possible: in any case, and percent-encoded.
func redactQuery(query string) string {
	if !strings.Contains(strings.ToLower(query), "s") && !strings.Contains(query, "%") {
		return query
	}
	parts := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	changed := false
	for i, part := range parts {
		name, _, ok := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if ok && strings.EqualFold(strings.TrimSpace(name), "sig") {
			parts[i], changed = "sig="+redacted, true
		}
	}
	if !changed {
		return query
	}
	return strings.Join(parts, "&")
}
