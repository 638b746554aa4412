package azuretables

import (
	"net/url"
	"strings"
	"testing"
)

// accountSignature returns the parameters of an account SAS for all services, types and permissions.
func (b *bench) accountSignature(start, expiry, ip, protocol string) string {
	const permissions, services, types, version = "rwdlacu", "t", "sco", "2019-02-02"
	signed := strings.Join([]string{DevelopmentAccount, permissions, services, types, start, expiry, ip, protocol,
		version}, "\n") + "\n"
	q := url.Values{"sp": {permissions}, "ss": {services}, "srt": {types}, "se": {expiry}, "sv": {version},
		"sig": {b.hmac(DevelopmentAccount, signed)}}
	for name, value := range map[string]string{"st": start, "sip": ip, "spr": protocol} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// Azurite listed tables with an expired shared access signature: its expiry was checked by some operations only. Every
// kind of request is sent with signatures that are expired, not valid yet, for another address, and for https only.
func TestAzurite2611_InvalidSignaturesPermitNoOperation(t *testing.T) {
	const past, future = "2000-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
	for text := range authorized() {
		first, rest, more := strings.Cut(text, "\n")
		method, target, _ := strings.Cut(first, " ")
		if more {
			rest = "\n" + rest
		}
		with := func(query string) string {
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			return method + " " + target + separator + query + rest
		}
		b, g, cluster := newGuarded(t, nil)
		for name, query := range map[string]string{
			"expired":         b.accountSignature("", past, "", ""),
			"not valid yet":   b.accountSignature(future, "2099-02-01T00:00:00Z", "", ""),
			"another address": b.accountSignature("", future, "192.0.2.7", ""),
			"https only":      b.accountSignature("", future, "", "https"),
			"without expiry":  b.accountSignature("", "", "", ""),
			"cut short":       strings.Replace(b.accountSignature("", future, "", ""), "sig=", "sig=A", 1),
		} {
			resp, answer := b.send(with(query))
			if resp.StatusCode != 403 || cluster.effects > 0 || len(g.requested) > 0 {
				t.Errorf("%s, %s: %d %s, %d effects, required %q", text, name, resp.StatusCode, answer,
					cluster.effects, g.requested)
			}
		}
		// Policies need the account's key.
		permitted := !strings.Contains(target, "comp=acl")
		resp, answer := b.send(with(b.accountSignature("", future, "", "https,http")))
		if permitted != (len(g.requested) > 0) || !permitted && (resp.StatusCode != 403 || cluster.effects > 0) {
			t.Errorf("%s with a valid signature: %d %s", text, resp.StatusCode, answer)
		}
	}
}
