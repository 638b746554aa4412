package azuretables

import (
	"slices"
	"strconv"
	"strings"

	"cqld/azuretables/odata"
)

// corsRule allows web pages of other origins to send certain requests.
type corsRule struct {
	origins, methods, allowed, exposed []string
	maxAge                             int // seconds
}

// parseRules parses the rules: at most corsRules, with at most corsBytes in total.
func parseRules(e *element) (rules []corsRule, ok bool) {
	size := 0
	for _, c := range e.children {
		f, known := c.fields("AllowedOrigins", "AllowedMethods", "AllowedHeaders", "ExposedHeaders", "MaxAgeInSeconds")
		if c.name != "CorsRule" || !known || len(f) != 5 {
			return nil, false
		}
		r := corsRule{origins: parseList(f["AllowedOrigins"]), methods: parseList(f["AllowedMethods"]),
			allowed: parseList(f["AllowedHeaders"]), exposed: parseList(f["ExposedHeaders"])}
		var err error
		if r.maxAge, err = strconv.Atoi(f["MaxAgeInSeconds"].value()); err != nil || r.maxAge < 0 {
			return nil, false
		}
		if len(r.origins) == 0 || len(r.origins) > 64 || len(r.methods) == 0 {
			return nil, false
		}
		for i, m := range r.methods {
			r.methods[i] = strings.ToUpper(m)
			if !slices.Contains([]string{"DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"},
				r.methods[i]) {
				return nil, false
			}
		}
		for _, list := range [][]string{r.origins, r.methods, r.allowed, r.exposed} {
			for _, s := range list {
				size += len(s)
				if len(s) > 256 || strings.ContainsAny(s, "\r\n") {
					return nil, false
				}
			}
		}
		rules = append(rules, r)
	}
	return rules, len(rules) <= corsRules && size <= corsBytes
}

func parseList(e *element) (out []string) {
	for _, s := range strings.Split(e.value(), ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (r *corsRule) append(dst []byte) []byte {
	dst = append(dst, "<CorsRule>"...)
	dst = appendElement(dst, "AllowedMethods", strings.Join(r.methods, ","))
	dst = appendElement(dst, "AllowedOrigins", strings.Join(r.origins, ","))
	dst = appendElement(dst, "AllowedHeaders", strings.Join(r.allowed, ","))
	dst = appendElement(dst, "ExposedHeaders", strings.Join(r.exposed, ","))
	dst = appendElement(dst, "MaxAgeInSeconds", strconv.Itoa(r.maxAge))
	return append(dst, "</CorsRule>"...)
}

// matches reports whether the rule applies to the origin and method, and whether it names the origin exactly. The
// comparison of origins is case-sensitive.
func (r *corsRule) matches(origin, method string) (exact, ok bool) {
	if !slices.Contains(r.methods, method) {
		return false, false
	}
	exact = slices.Contains(r.origins, origin)
	return exact, exact || slices.Contains(r.origins, "*")
}

// permits reports whether a page may send these headers, a list separated by commas.
func (r *corsRule) permits(headers string) bool {
	for _, h := range strings.Split(headers, ",") {
		if h = strings.TrimSpace(h); h == "" {
			continue
		}
		found := false
		for _, a := range r.allowed {
			prefix, wildcard := strings.CutSuffix(a, "*")
			found = found || strings.EqualFold(a, h) || wildcard && len(h) >= len(prefix) &&
				strings.EqualFold(h[:len(prefix)], prefix)
		}
		if !found {
			return false
		}
	}
	return true
}

// preflight answers a browser's preflight request. It requires no authorization.
func preflight(rules []corsRule, req *httpRequest, resp *response) error {
	h := &req.header
	if h.origin == "" || h.corsMethod == "" {
		e := odata.Of(odata.InvalidHeaderValue)
		e.Message = "A required CORS header is not present."
		return e
	}
	for i := range rules {
		r := &rules[i]
		exact, ok := r.matches(h.origin, h.corsMethod)
		if !ok || !r.permits(h.corsHeaders) {
			continue
		}
		resp.status = 200
		r.allow(resp, h.origin, exact)
		resp.add("Access-Control-Allow-Methods", h.corsMethod)
		if h.corsHeaders != "" {
			resp.add("Access-Control-Allow-Headers", h.corsHeaders)
		}
		resp.addInt("Access-Control-Max-Age", r.maxAge)
		return nil
	}
	return &odata.Error{Code: corsPreflightFailure, Message: "CORS not enabled or no matching rule found for this " +
		"request."}
}

func (r *corsRule) allow(resp *response, origin string, exact bool) {
	if !exact {
		resp.add("Access-Control-Allow-Origin", "*")
		return
	}
	resp.add("Access-Control-Allow-Origin", origin)
	resp.add("Access-Control-Allow-Credentials", "true")
}

// expose returns the names of the headers that a page may read. Browsers do not support prefixes, so the names of this
// response's headers that match replace a prefix.
func (r *corsRule) expose(resp *response) string {
	var names []string
	for _, e := range r.exposed {
		prefix, wildcard := strings.CutSuffix(e, "*")
		if !wildcard {
			names = append(names, e)
			continue
		}
		for i := range resp.fields {
			if n := resp.fields[i].name; len(n) >= len(prefix) && strings.EqualFold(n[:len(prefix)], prefix) &&
				!strings.HasPrefix(n, "Access-") {
				names = append(names, n)
			}
		}
	}
	return strings.Join(names, ",")
}

// share adds the CORS headers that a browser requires before it gives the response to a page, and Vary if another
// origin would get different headers. (REST reference, "CORS support", the table of headers.)
func share(rules []corsRule, req *httpRequest, method string, resp *response) {
	if len(rules) == 0 {
		return
	}
	read := method == "GET" || method == "HEAD"
	everyone := false
	for i := range rules {
		everyone = everyone || slices.Contains(rules[i].origins, "*")
		exact, ok := rules[i].matches(req.header.origin, method)
		if req.header.origin == "" || !ok {
			continue
		}
		rules[i].allow(resp, req.header.origin, exact)
		if len(rules[i].exposed) > 0 {
			resp.add("Access-Control-Expose-Headers", rules[i].expose(resp))
		}
		if read && exact {
			resp.add("Vary", "Origin")
		}
		return
	}
	if read && !everyone {
		resp.add("Vary", "Origin")
	}
}
