// Package authority makes certificates for a cluster: a certificate authority (CA), certificates of nodes, which serve
// and connect to each other, and certificates of clients.
//
// Keys are ECDSA P-256. Keys, serial numbers and signatures depend only on the randomness and the time that the caller
// passes, so tests can make the same certificates again.
package authority
