package azuretables

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"cqld/azuretables/odata"
)

// checkHost refuses requests to the development account by a host name that is not configured. Every web page knows that
// account's key: one whose own name resolves to a loopback address (DNS rebinding) could sign requests and read the answers,
// because the browser takes them for the page's own server. An IP address or localhost cannot be such a page's name.
func (c *call) checkHost() error {
	if !c.account.wellKnown {
		return nil
	}
	name := c.req.host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(c.server.o.Hosts, name) {
		return nil
	}
	return &odata.Error{Code: odata.AuthorizationFailure, Message: "The development account is not served under the host name in this " +
		"request. Use an IP address or localhost, or list the name in tables_hosts."}
}
