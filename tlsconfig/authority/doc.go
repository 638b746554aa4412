// Package authority issues certificates for a cluster: a certificate authority (CA), certificates of nodes, which serve
// and connect to each other, and certificates of clients.
//
// Keys are ECDSA P-256. Keys, serial numbers and signatures depend only on the randomness and the time that the caller
// passes, so tests can make the same certificates again.
//
// It stores nothing: the caller writes the PEM text to files, and protects the private keys.
//
//	New, NewCluster, Load ─▶ Authority ─▶ Issue, Renew ─▶ Pair ─▶ CertificatePEM, KeyPEM, TLS
//	                             └──────▶ Revoke ─▶ revocation list
package authority
