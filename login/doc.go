// Package login authenticates CQL clients by user name and password, as Cassandra's PasswordAuthenticator does.
// Clients send both in one token of SASL PLAIN.
//
// It does not store roles: Options.Lookup returns the bcrypt hash of a role from the cluster's metadata, so changes
// take effect immediately.
//
// One verification of a bcrypt hash takes tens of milliseconds of CPU time, so package login bounds how often that
// happens:
//
//   - Correct credentials are remembered for a bounded time, as an HMAC of role, hash and password under a key of this
//     process. A changed hash changes the HMAC, so the old password is refused immediately. Wrong credentials are
//     remembered as well: a client that repeats them costs no CPU time and is not a guess.
//   - Connections that send the same credentials at the same time share one verification.
//   - Few verifications run at a time, few wait, and each waits no longer than the handshake may take. Beyond that,
//     clients receive the error Overloaded.
//   - After repeated wrong guesses, from one address or for one role, further ones are refused without verification.
//     The remembered credentials of a role are not affected by guesses from other addresses.
//
// Failures do not reveal which roles exist. A role that does not exist, or that has no password, is verified against
// a dummy hash, and the verification of a cheaper hash is extended to the same cost. All failures have the same
// message.
//
// Package login starts no goroutines: a verification runs in the goroutine of the connection.
//
//	token ─▶ ParsePlain ─▶ Lookup ─▶ begin: remembered? rejected? backed off? running? ─▶ answer
//	                                          │ none of these
//	                                          ▼
//	                                  hashers: a slot ─▶ bcrypt ─▶ record
//
// All tables are bounded and evict the least recently used entry, so clients cannot make them grow.
package login
