package azuretables

import (
	"slices"
	"strconv"
	"strings"

	"cqld/azuretables/odata"
)

// corsRule allows web pages of other origins to send certain requests. An empty list allows nothing. It is immutable
// after parseRules.
type corsRule struct {
	origins, methods, allowed, exposed []string // methods in upper case; allowed and exposed may end in *
	maxAge                             int      // seconds
}

// parseRules parses the rules: at most corsRules, with at most corsBytes in total. ok is false if a rule is malformed
// or a limit exceeded; then no rule may be used. (REST reference, "Set Table Service Properties".) The limits are the
// service's: five rules, 2 KiB.
func parseRules(e *element) (rules []corsRule, ok bool) {
	size := 0
	for _, c := range e.children {
		// All five elements are mandatory; a list may be empty only for headers.
		f, known := c.fields("AllowedOrigins", "AllowedMethods", "AllowedHeaders", "ExposedHeaders", "MaxAgeInSeconds")
		if c.name != "CorsRule" || !known || len(f) != 5 {
			return nil, false
		}
		r := corsRule{origins: parseList(f["AllowedOrigins"]), methods: parseList(f["AllowedMethods"]),
			allowed: parseList(f["AllowedHeaders"]), exposed: parseList(f["ExposedHeaders"])}
		var err error
		// Zero is allowed: the browser asks again for each request.
		if r.maxAge, err = strconv.Atoi(f["MaxAgeInSeconds"].value()); err != nil || r.maxAge < 0 {
			return nil, false
		}
		// At most 64 origins, as in the service.
		if len(r.origins) == 0 || len(r.origins) > 64 || len(r.methods) == 0 {
			return nil, false
		}
		for i, m := range r.methods {
			r.methods[i] = strings.ToUpper(m)
			// Methods are compared as sent, in upper case.
			if !slices.Contains([]string{"DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"},
				r.methods[i]) {
				return nil, false
			}
		}
		for _, list := range [][]string{r.origins, r.methods, r.allowed, r.exposed} {
			for _, s := range list {
				size += len(s)
				// A line break would end the header of a response that repeats the value.
				if len(s) > 256 || strings.ContainsAny(s, "\r\n") {
					return nil, false
				}
			}
		}
		rules = append(rules, r)
	}
	// The number of rules is checked last: the document itself is limited to xmlBytesMax.
	return rules, len(rules) <= corsRules && size <= corsBytes
}

// fewHeaders reports whether both lists of headers are within the service's limits. It applies to rules that are set:
// rules that an earlier version has stored stay valid.
func (r *corsRule) fewHeaders() bool { return fewNames(r.allowed) && fewNames(r.exposed) }

// fewNames reports whether one list has at most 64 names and 2 prefixes.
func fewNames(list []string) bool {
	prefixes := 0
	for _, name := range list {
		if strings.HasSuffix(name, "*") {
			prefixes++
		}
	}
	return len(list)-prefixes <= 64 && prefixes <= 2
}

// parseList parses a list separated by commas. Empty entries are ignored. Entries keep their case.
func parseList(e *element) (out []string) {
	for _, s := range strings.Split(e.value(), ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// append appends the rule as XML, in the order of the service's documents. It is the inverse of parseRules, except for
// white space.
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
// comparison of origins is case-sensitive. method is in upper case.
func (r *corsRule) matches(origin, method string) (exact, ok bool) {
	if !slices.Contains(r.methods, method) {
		return false, false
	}
	exact = slices.Contains(r.origins, origin)
	// "*" as origin matches every page, but without credentials (allow).
	return exact, exact || slices.Contains(r.origins, "*")
}

// permits reports whether a page may send these headers, a list separated by commas. The browser sends the list in
// Access-Control-Request-Headers.
func (r *corsRule) permits(headers string) bool {
	// An empty list of headers is permitted by every rule.
	for _, h := range strings.Split(headers, ",") {
		if h = strings.TrimSpace(h); h == "" {
			continue
		}
		found := false
		for _, a := range r.allowed {
			// A rule's header may be a prefix: x-ms-meta-data*. Names of headers have no case.
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

// preflight answers a browser's preflight request. It requires no authorization. The first rule that matches decides,
// as in the service. Without one, the error is 403. The request has the method OPTIONS, an Origin, and the method of
// the request that is to follow.
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
		// A rule that matches the origin but not the headers does not end the search.
		if !ok || !r.permits(h.corsHeaders) {
			continue
		}
		resp.status = 200
		r.allow(resp, h.origin, exact)
		// The response names the requested method and headers rather than the rule's lists.
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

// allow adds the headers that name the permitted origin. Credentials are allowed only for an origin that is named, as
// the Fetch standard requires.
func (r *corsRule) allow(resp *response, origin string, exact bool) {
	// A response to any origin does not depend on it, so caches may share it.
	if !exact {
		resp.add("Access-Control-Allow-Origin", "*")
		return
	}
	resp.add("Access-Control-Allow-Origin", origin)
	resp.add("Access-Control-Allow-Credentials", "true")
}

// expose returns the names of the headers that a page may read. Browsers do not support prefixes, so the names of this
// response's headers that match replace a prefix. Without wildcards it is the rule's list.
func (r *corsRule) expose(resp *response) string {
	// The rule's order is kept. The headers of the response must be complete by now.
	var names []string
	for _, e := range r.exposed {
		prefix, wildcard := strings.CutSuffix(e, "*")
		if !wildcard {
			names = append(names, e)
			continue
		}
		// CORS headers themselves are never exposed.
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
// origin would get different headers. (REST reference, "CORS support", the table of headers.) It is called for every
// response but a preflight's, also for errors.
func share(rules []corsRule, req *httpRequest, method string, resp *response) {
	// Without rules there is no CORS header at all, not even Vary.
	if len(rules) == 0 {
		return
	}
	// Only responses to reads are cached.
	read := method == "GET" || method == "HEAD"
	origin := req.header.origin
	for i := range rules {
		// Without an origin, only a rule for all origins matches. A cache may give the response to a page later.
		exact, ok := rules[i].matches(origin, method)
		if !ok || origin == "" && !read {
			continue
		}
		rules[i].allow(resp, origin, exact)
		if len(rules[i].exposed) > 0 {
			resp.add("Access-Control-Expose-Headers", rules[i].expose(resp))
		}
		if read && exact {
			resp.add("Vary", "Origin")
		}
		return
	}
	// Another origin could match a rule, so a cache must not reuse this response for it.
	if read {
		resp.add("Vary", "Origin")
	}
}
