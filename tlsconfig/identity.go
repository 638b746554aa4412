package tlsconfig

import (
	"crypto/x509"
	"net/url"
	"strings"
)

// spiffeScheme is the scheme of SPIFFE identities: spiffe://TRUST-DOMAIN/PATH.
const (
	spiffeScheme = "spiffe"
	spiffePrefix = spiffeScheme + "://"
)

// SPIFFE returns the first SPIFFE identity of a certificate. ok is false if it has none. It does not verify the
// certificate.
func SPIFFE(c *x509.Certificate) (identity string, ok bool) {
	for _, u := range c.URIs {
		if text := u.String(); strings.HasPrefix(text, spiffePrefix) {
			return text, true
		}
	}
	return "", false
}

// NodeIdentity returns the SPIFFE identity of a node: spiffe://CLUSTER/node/NAME. Characters of the cluster name that
// are invalid in SPIFFE trust domains become hyphens.
func NodeIdentity(cluster, name string) string {
	return identity(cluster, "node", name)
}

// ClientIdentity returns the SPIFFE identity of a client: spiffe://CLUSTER/client/NAME.
func ClientIdentity(cluster, name string) string {
	return identity(cluster, "client", name)
}

// identity returns a SPIFFE identity of a cluster. Characters of name that a URL path cannot contain are escaped.
func identity(cluster, kind, name string) string {
	u := url.URL{Scheme: spiffeScheme, Host: TrustDomain(cluster), Path: "/" + kind + "/" + name}
	return u.String()
}

// TrustDomain returns the SPIFFE trust domain of a cluster. Letters become lower case, because trust domains contain no
// upper case. Different cluster names may have the same trust domain.
func TrustDomain(cluster string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			// Trust domains have lower case letters only.
			return r - 'A' + 'a'
		}
		return '-'
	}, cluster)
}

// Node returns the name of the node that a certificate identifies in a cluster: NAME of spiffe://CLUSTER/node/NAME. ok
// is false for clients' certificates, other clusters' certificates, and certificates without such an identity.
//
//	spiffe://shop/node/n1, cluster shop     n1
//	spiffe://shop/client/app                not a node
//	spiffe://other/node/n1                  another cluster
func Node(c *x509.Certificate, cluster string) (name string, ok bool) {
	for _, u := range c.URIs {
		if u.Scheme != spiffeScheme || u.Host != TrustDomain(cluster) {
			continue
		}
		// u.Path is unescaped, the inverse of identity.
		if name, ok = strings.CutPrefix(u.Path, "/node/"); ok && name != "" {
			return name, true
		}
	}
	return "", false
}
