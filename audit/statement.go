package audit

import (
	"fmt"
	"net/netip"

	"cqld/cql"
)

// Client is the client of a CQL statement.
type Client struct {
	// User is the role that the client logged in as; empty if it is anonymous.
	User   string
	Source netip.AddrPort
}

// Executed records a statement that succeeded. Its text was parsed, and may contain secrets. batch is the id of its
// batch, or empty. l may be nil.
func (l *Log) Executed(c Client, about Subject, text, batch string) {
	if l.Wants(about.Type, about.Keyspace, c.User) {
		l.Record(&Entry{Protocol: "cql", Type: about.Type, User: c.User, Source: c.Source, Keyspace: about.Keyspace,
			Scope:     about.Scope,
			Operation: cql.RedactStatement(text), Batch: batch})
	}
}

// Failed records a statement that failed, whose text may contain secrets. unauthorized means that the client lacks a
// permission. The text need not be a valid statement; cql.Redact removes more from invalid text. The subject is
// unknown, so the entry has the keyspace of the session.
func (l *Log) Failed(c Client, keyspace, text string, err error, unauthorized bool) {
	e := Entry{Protocol: "cql", Type: RequestFailure, User: c.User, Source: c.Source, Keyspace: keyspace}
	if unauthorized {
		e.Type = UnauthorizedAttempt
	}
	if l.Wants(e.Type, e.Keyspace, e.User) {
		// Messages of errors may repeat parts of the text.
		e.Operation, e.Error = cql.Redact(text), cql.RedactError(text, err)
		l.Record(&e)
	}
}

// BatchMessage is a BATCH message of a client. It is created before the batch is executed.
type BatchMessage struct {
	// Text describes the message in the entry for the batch; the statements have their own entries.
	Text   string
	log    *Log
	client Client
}

// Batch returns a message with a number of statements. consistency is shown in the text.
func (l *Log) Batch(c Client, statements int, consistency fmt.Stringer) BatchMessage {
	return BatchMessage{fmt.Sprintf("BATCH of %d statements at consistency %v", statements, consistency), l, c}
}

// Executed records a batch that succeeded: as in Cassandra, one entry for the batch and one for each statement, with an
// id that they share.
func (b BatchMessage) Executed(keyspace string, id [16]byte, statements int,
	statement func(i int) (about Subject, text string)) {
	// This is the text form of a UUID.
	batch := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	b.log.Executed(b.client, Subject{Type: Batch, Keyspace: keyspace}, b.Text, batch)
	for i := range statements {
		about, text := statement(i)
		b.log.Executed(b.client, about, text, batch)
	}
}
