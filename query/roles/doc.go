// Package roles implements the meaning of statements about roles: CREATE, ALTER and DROP ROLE and USER, GRANT,
// REVOKE, LIST, and ADD and DROP IDENTITY. It authorizes the caller, validates the statement against the directory of
// roles, and proposes the change to the metadata log.
//
// It does not store roles (package auth does, and package cluster replicates them), and does not know which
// permissions other statements need (package query/permissions does). Hashing is injected, because it needs
// randomness and much CPU time.
//
//	statement ─▶ authorize ─▶ validate ─▶ auth.Change ─▶ Changer: in force on every live node
//	                │             │
//	             Authorizer   auth.Directory
//
// As in Cassandra, a statement is authorized before it is validated, so that a role without permissions does not
// learn which roles exist.
package roles
