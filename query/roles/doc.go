// Package roles implements the meaning of statements about roles: CREATE, ALTER and DROP ROLE and USER, GRANT, REVOKE,
// LIST, and ADD and DROP IDENTITY. It decides who may execute them, validates them against the directory of roles, and
// proposes the change to the metadata log.
//
// It does not keep roles (package auth does, replicated by package cluster) and does not know what other statements
// need (package query/permissions does). Hashing is injected, because it takes randomness and much time.
//
//	statement ─▶ authorize ─▶ validate ─▶ auth.Change ─▶ Changer: in force on every live node
//	                │             │
//	             Authorizer   auth.Directory
//
// As in Cassandra, a statement is authorized before it is validated, so that a role without permissions does not learn
// which roles exist.
package roles
