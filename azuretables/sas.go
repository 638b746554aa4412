package azuretables

import (
	"net/netip"
	"strings"
	"time"

	"cqld/azuretables/odata"
)

// accessTimeFormats returns the formats of times in signatures and policies. They are tried in order, the most
// frequent first. A time without a zone is UTC.
func accessTimeFormats() []string {
	return []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04:05.9999999Z", "2006-01-02T15:04Z", "2006-01-02",
		"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00"}
}

// parseAccessTime parses a time in any of the formats, and returns it in UTC. ok is false if none fits. Times with
// other zones are converted.
func parseAccessTime(s string) (time.Time, bool) {
	for _, format := range accessTimeFormats() {
		if t, err := time.Parse(format, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// authorizeSignature checks a shared access signature; policies returns the stored access policies of a table. It
// verifies the HMAC before anything else, so that a client without a valid signature learns nothing else. A signature
// that is valid but does not fit has a code of its own.
//
// The order of the checks is: form, HMAC, time, address and protocol, service.
func (a *account) authorizeSignature(req *httpRequest, s *signature, now time.Time,
	policies func(table string) []policy) (*grant, error) {
	var err error
	g := &grant{}
	switch {
	// The version decides the string to sign. Versions compare as strings, because they are dates.
	case s.version < "2012-02-12" || len(s.version) != len("2012-02-12"):
		return nil, odata.Of(odata.AuthenticationFailed)
	// A signature names a table or the services and types: the first is a service SAS, the second an account SAS.
	case s.table != "" && s.services == "" && s.types == "":
		err = a.authorizeTable(s, g, policies)
	case s.table == "" && s.services != "" && s.types != "":
		err = a.authorizeAccount(s, g)
	default:
		err = odata.Of(odata.AuthenticationFailed)
	}
	// The expiry may come from the stored policy, so it is checked after authorizeTable.
	if err == nil {
		err = s.inTime(now)
	}
	if err == nil {
		err = s.fromWhere(req)
	}
	// An account SAS that is valid, but not for the Table service.
	if err == nil && s.services != "" && !strings.Contains(s.services, "t") {
		err = odata.Of(odata.AuthorizationServiceMismatch)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// authorizeAccount checks an account SAS. (REST reference, "Create an account SAS".) Its resource types are the levels
// of the grant.
func (a *account) authorizeAccount(s *signature, g *grant) error {
	// The fields end in line breaks, also the last one.
	signed := a.verify(s.sig, func(dst []byte) []byte {
		for _, part := range [...]string{a.name, s.permissions, s.services, s.types, s.start, s.expiry, s.ip,
			s.protocol, s.version} {
			dst = append(append(dst, part...), '\n')
		}
		// The encryption scope is signed since this version.
		if s.version >= "2020-12-06" {
			dst = append(append(dst, s.scope...), '\n')
		}
		return dst
	})
	// sp is mandatory in an account SAS.
	if !signed || s.permissions == "" {
		return odata.Of(odata.AuthenticationFailed)
	}
	// Unknown types are ignored, like unknown permissions.
	for i := range len(s.types) {
		switch s.types[i] {
		case 's':
			g.levels |= onService
		case 'c':
			g.levels |= onContainer
		case 'o':
			g.levels |= onObject
		}
	}
	g.permissions = parsePermissions(s.permissions)
	return nil
}

// authorizeTable checks a service SAS for one table. The signature must not repeat a field of its stored access policy.
// (REST reference, "Create a service SAS".) It grants access to entities only.
func (a *account) authorizeTable(s *signature, g *grant, policies func(table string) []policy) error {
	// Names of tables have no case, and the string to sign contains the lower-case name.
	g.table, g.levels = strings.ToLower(s.table), onObject
	// verify precedes take, which changes the fields that the signature covers.
	if !a.verify(s.sig, func(dst []byte) []byte { return a.appendTableString(dst, s, g.table) }) {
		return odata.Of(odata.AuthenticationFailed)
	}
	// The permissions come from the signature or from the policy. Neither means that it allows nothing.
	if s.identifier != "" && !s.take(policies(g.table)) || s.permissions == "" {
		return odata.Of(odata.AuthenticationFailed)
	}
	g.permissions = parsePermissions(s.permissions)
	// The string to sign does not distinguish an empty key from a missing one, so this must not either.
	if s.startPK+s.startRK != "" {
		g.from = &bound{s.startPK, s.startRK}
	}
	if s.endPK+s.endRK != "" {
		g.to = &bound{s.endPK, s.endRK}
	}
	return nil
}

// appendTableString appends the string to sign of a service SAS, in the form of the signature's version. The parts of
// the string depend on the version, each on its own.
func (a *account) appendTableString(dst []byte, s *signature, table string) []byte {
	line := func(part string) { dst = append(append(dst, part...), '\n') }
	line(s.permissions)
	line(s.start)
	line(s.expiry)
	// Since this version, the resource begins with the name of the service.
	if s.version >= "2015-02-21" {
		dst = append(dst, "/table"...)
	}
	dst = append(append(dst, '/'), a.name...)
	dst = append(dst, '/')
	line(table)
	line(s.identifier)
	// The address and the protocol are signed since this version.
	if s.version >= "2015-04-05" {
		line(s.ip)
		line(s.protocol)
	}
	line(s.version)
	line(s.startPK)
	line(s.startRK)
	// No line break follows the last field.
	line(s.endPK)
	return append(dst, s.endRK...)
}

// take fills in the signature's fields from its policy. It returns false if the policy does not exist, or if both set
// the same field. The signature covers the fields as they were sent, so take follows verify.
func (s *signature) take(policies []policy) bool {
	for i := range policies {
		// A policy is found by its exact id.
		p := &policies[i]
		if p.id != s.identifier {
			continue
		}
		for _, f := range [...]struct {
			of     *string
			stored string
		}{{&s.start, p.start}, {&s.expiry, p.expiry}, {&s.permissions, p.permission}} {
			// The signature and the policy must not both set a field, even to the same value.
			if f.stored != "" && *f.of != "" {
				return false
			}
			if f.stored != "" {
				*f.of = f.stored
			}
		}
		return true
	}
	return false
}

// inTime returns nil if the signature is valid now. Every signature must expire. Clocks of clients do not matter, only
// the node's.
func (s *signature) inTime(now time.Time) error {
	expiry, ok := parseAccessTime(s.expiry)
	// The expiry itself is too late already.
	if !ok || !now.Before(expiry) {
		return odata.Of(odata.AuthenticationFailed)
	}
	// The start is inclusive.
	if s.start != "" {
		if start, ok := parseAccessTime(s.start); !ok || now.Before(start) {
			return odata.Of(odata.AuthenticationFailed)
		}
	}
	return nil
}

// fromWhere returns nil if the signature is valid for the client's address and protocol. Both codes show an
// authenticated client what to change.
func (s *signature) fromWhere(req *httpRequest) error {
	// "https,http" is the default. HTTP alone is not a value.
	switch s.protocol {
	case "", "https,http":
	case "https":
		if !req.tls {
			return &odata.Error{Code: authorizationProtocolMismatch,
				Message: "This request is not authorized to perform this operation using this protocol."}
		}
	default:
		return odata.Of(odata.AuthenticationFailed)
	}
	// Without an address, every client may use the signature.
	if s.ip == "" {
		return nil
	}
	// A range includes both ends.
	first, last, isRange := strings.Cut(s.ip, "-")
	if !isRange {
		last = first
	}
	from, err := netip.ParseAddr(first)
	to, errTo := netip.ParseAddr(last)
	if err != nil || errTo != nil {
		return odata.Of(odata.AuthenticationFailed)
	}
	// IPv4 clients of a dual-stack socket have mapped addresses. Addresses of different families never match.
	client := req.remote.Addr().Unmap()
	if client.BitLen() != from.BitLen() || client.Less(from) || to.Less(client) {
		return &odata.Error{Code: authorizationSourceIPMismatch,
			Message: "This request is not authorized to perform this operation using this source IP " +
				client.String() + "."}
	}
	return nil
}
