package azuretables

import (
	"net/url"
	"strings"
)

// redacted replaces the value of a signature in logs. The length does not depend on the signature.
const redacted = "*******"

// redactQuery returns a query without the values of its signatures. The names of parameters are matched as leniently as
// possible: in any case, and percent-encoded. The result differs from the query only if it contains a signature.
func redactQuery(query string) string {
	// A fast exit that is correct for every spelling: the name contains an s, or something is escaped.
	if !strings.Contains(strings.ToLower(query), "s") && !strings.Contains(query, "%") {
		return query
	}
	// Some clients and proxies separate parameters by semicolons.
	parts := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	changed := false
	for i, part := range parts {
		name, _, ok := strings.Cut(part, "=")
		// A name that cannot be unescaped is compared as it is.
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if ok && strings.EqualFold(strings.TrimSpace(name), "sig") {
			parts[i], changed = "sig="+redacted, true
		}
	}
	// The query in the log is the one that was sent, including its separators.
	if !changed {
		return query
	}
	return strings.Join(parts, "&")
}
