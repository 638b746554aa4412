package azuretables

import (
	"strings"
)

// policy is a stored access policy of a table, which signatures refer to by its id. A signature sets the fields that
// are empty here.
type policy struct {
	id                        string
	start, expiry, permission string
}

// parsePolicies parses the signed identifiers of a table, at most policiesMax.
func parsePolicies(body []byte) ([]policy, error) {
	root, err := parseXML(body, "SignedIdentifiers")
	if err != nil {
		return nil, err
	}
	out := []policy{}
	for _, c := range root.children {
		f, ok := c.fields("Id", "AccessPolicy")
		if c.name != "SignedIdentifier" || !ok {
			return nil, errXML()
		}
		p := policy{id: f["Id"].value()}
		if p.id == "" || len([]rune(p.id)) > policyIDMax {
			return nil, errXML()
		}
		if e := f["AccessPolicy"]; e != nil && !p.parse(e) {
			return nil, errXML()
		}
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

func (p *policy) parse(e *element) bool {
	f, ok := e.fields("Start", "Expiry", "Permission")
	if !ok {
		return false
	}
	p.permission = f["Permission"].value()
	if strings.Trim(p.permission, "raud") != "" {
		return false
	}
	for _, t := range [...]struct {
		given string
		out   *string
	}{{f["Start"].value(), &p.start}, {f["Expiry"].value(), &p.expiry}} {
		if t.given == "" {
			continue
		}
		at, ok := parseAccessTime(t.given)
		if !ok {
			return false
		}
		*t.out = at.Format(policyTimeFormat)
	}
	return true
}

// policyTimeFormat is the format of times in the service's policies: seven decimal places of the second.
const policyTimeFormat = "2006-01-02T15:04:05.0000000Z"

// appendPolicies appends the XML document that the service returns.
func appendPolicies(dst []byte, policies []policy) []byte {
	dst = append(dst, xmlHeader...)
	if len(policies) == 0 {
		return append(dst, "<SignedIdentifiers />"...)
	}
	dst = append(dst, "<SignedIdentifiers>"...)
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
