package azuretables

import (
	"strings"
)

// policy is a stored access policy of a table, which signatures refer to by its id. A signature sets the fields that
// are empty here. Times have policyTimeFormat. An empty field means that the policy does not set it.
type policy struct {
	id                        string
	start, expiry, permission string
}

// parsePolicies parses the signed identifiers of a table, at most policiesMax. An empty list is not nil. The same
// function reads requests and the stored document. Errors are InvalidXmlDocument.
func parsePolicies(body []byte) ([]policy, error) {
	root, err := parseXML(body, "SignedIdentifiers")
	if err != nil {
		return nil, err
	}
	out := []policy{}
	for _, c := range root.children {
		// Other elements are errors, and each may occur once.
		f, ok := c.fields("Id", "AccessPolicy")
		if c.name != "SignedIdentifier" || !ok {
			return nil, errXML()
		}
		p := policy{id: f["Id"].value()}
		// The limit counts characters, not bytes.
		if p.id == "" || len([]rune(p.id)) > policyIDMax {
			return nil, errXML()
		}
		// An identifier without AccessPolicy leaves every field to the signatures.
		if e := f["AccessPolicy"]; e != nil && !p.parse(e) {
			return nil, errXML()
		}
		// At most policiesMax are useful, so the search needs no map.
		for i := range out {
			if out[i].id == p.id {
				return nil, errXML()
			}
		}
		out = append(out, p)
	}
	if len(out) > policiesMax {
		return nil, errXML()
	}
	return out, nil
}

// parse parses the element AccessPolicy, and returns false if it is invalid. p is changed only in the fields that the
// element has.
func (p *policy) parse(e *element) bool {
	f, ok := e.fields("Start", "Expiry", "Permission")
	if !ok {
		return false
	}
	p.permission = f["Permission"].value()
	// Only the permissions of a table SAS are allowed, in any order.
	if strings.Trim(p.permission, "raud") != "" {
		return false
	}
	for _, t := range [...]struct {
		given string
		out   *string
	}{{f["Start"].value(), &p.start}, {f["Expiry"].value(), &p.expiry}} {
		// Absent and empty times are the same.
		if t.given == "" {
			continue
		}
		at, ok := parseAccessTime(t.given)
		if !ok {
			return false
		}
		// Normalized, so that the response shows times as the service writes them.
		*t.out = at.Format(policyTimeFormat)
	}
	return true
}

// policyTimeFormat is the format of times in the service's policies: seven decimal places of the second.
const policyTimeFormat = "2006-01-02T15:04:05.0000000Z"

// appendPolicies appends the XML document that the service returns. policies may be nil.
func appendPolicies(dst []byte, policies []policy) []byte {
	dst = append(dst, xmlHeader...)
	// The service closes an empty list in one tag, and SDKs accept both.
	if len(policies) == 0 {
		return append(dst, "<SignedIdentifiers />"...)
	}
	dst = append(dst, "<SignedIdentifiers>"...)
	// In the order in which they were set.
	for i := range policies {
		p := &policies[i]
		dst = append(dst, "<SignedIdentifier>"...)
		dst = appendElement(dst, "Id", p.id)
		if p.start+p.expiry+p.permission != "" { // the service returns an empty policy without AccessPolicy
			dst = append(dst, "<AccessPolicy>"...)
			for _, f := range [...]struct{ name, value string }{{"Start", p.start}, {"Expiry", p.expiry},
				{"Permission", p.permission}} {
				if f.value != "" {
					dst = appendElement(dst, f.name, f.value)
				}
			}
			dst = append(dst, "</AccessPolicy>"...)
		}
		dst = append(dst, "</SignedIdentifier>"...)
	}
	return append(dst, "</SignedIdentifiers>"...)
}
