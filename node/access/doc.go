// Package access determines who may use a node: it creates the first superuser, hashes passwords, and builds the
// authenticator, the authorizer and the statements about roles from the node's configuration and the roles in the
// metadata.
//
// It stores nothing: roles are metadata of the cluster, and package auth decides what they permit.
package access
