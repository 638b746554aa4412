// Package internodetls implements server_encryption_options: it decides which connections between nodes use TLS, and
// verifies that the peer of each is the node at its address.
//
// Both sides present a certificate. A peer is accepted as the node at an IP address if all of these hold:
//
//  1. Its certificate is signed by a trusted authority, valid now, not revoked, and may be used by servers and by
//     clients. Certificates of clients may not be used by servers.
//  2. If the certificate has SPIFFE identities, one is spiffe://CLUSTER/node/NAME with this cluster.
//  3. With Options.VerifyEndpoint, the address is among the IP addresses of the certificate, or one of its DNS names
//     resolves to it. Without, the certificate has an identity of rule 2.
//
// messaging.Bindings binds node ids to addresses: together, a peer acts as node N only from the address of N, with a
// certificate for that address.
package internodetls
