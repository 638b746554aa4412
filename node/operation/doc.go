// Package operation classifies the requests of Azure Tables clients for the metrics and the audit log, and counts them.
// Clients choose methods and paths; the number of kinds is fixed.
package operation
