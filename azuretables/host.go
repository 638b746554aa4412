package azuretables

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"cqld/azuretables/odata"
)

// checkHost refuses a request to the development account if its host name is not configured. The key of this account is
// public: a web page whose own name resolves to a loopback address (DNS rebinding) could sign requests and read the
// responses, because the browser attributes them to the page's own origin. Such a page's name cannot be an IP address
// or localhost. configured are the names in tables_hosts.
//
// name is the header Host, with its port.
func (a *account) checkHost(name string, configured []string) error {
	// Other accounts have secret keys, so a page cannot sign requests for them.
	if !a.wellKnown {
		return nil
	}
	// An error means that the name has no port.
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	// A name may end in the root's dot. Names have no case.
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	// IPv6 addresses are in brackets in Host.
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil
	}
	// RFC 6761 reserves localhost and the names below it for loopback addresses.
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(configured, name) {
		return nil
	}
	return &odata.Error{Code: odata.AuthorizationFailure,
		Message: "The development account is not served under the host name in this " +
			"request. Use an IP address or localhost, or list the name in tables_hosts."}
}
