package scenario

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// cas executes a conditional update: "k1 a=x if=y" sets row a to x if its value is y. With if=none the row must not
// exist, and without if= there is no condition. The result is applied, not applied with the value that is there, or an
// error. The value "nothing" decides an empty mutation.
func (s *script) cas(d *datadriven.TestData) {
	done := s.begin("cas")
	key := row.NewPartitionKey([]byte(words(d)[0]))
	wanted := text(d, "if", "")
	var clustering, value string
	// The only argument with a name of one letter is the row.
	for _, a := range d.CmdArgs {
		if len(a.Key) == 1 && len(a.Vals) == 1 {
			clustering, value = a.Key, a.Vals[0]
		}
	}
	serial := ring.Serial
	if d.HasArg("local") {
		serial = ring.LocalSerial
	}
	s.c.Node(ring.NodeID(number(d, "at", 1))).Proposer.CAS(&paxos.CASRequest{
		// The read of a conditional update selects the row of its condition only.
		Command: &row.ReadCommand{Table: s.c.Table.StorageID, Key: key,
			Slices:       []row.Slice{row.ExactRow([]byte(clustering))},
			StaticCounts: true, Now: s.c.Clock.Now().Unix()},
		Serial: serial, Consistency: level(d), Contention: duration(d, "contention", "1s"),
		Timeout: duration(d, "timeout", "2s"),
		Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
			if wanted != "" && wanted != ValueIn(page) {
				return nil, false, nil
			}
			m := &row.Mutation{}
			m.Reset(s.c.Table.StorageID, key)
			// An empty mutation is decided like any other: it has a ballot, and changes nothing.
			if value != "nothing" {
				AddRow(m, s.c.Table, clustering, value, timestamp)
			}
			return m, true, nil
		},
	}, func(applied bool, page []byte, err error) {
		switch {
		case err != nil:
			done(FormatError(err))
		case applied:
			done("applied")
		default:
			done("not applied, there is " + ValueIn(page))
		}
	})
}

// ValueIn returns the value of the only row of a page, or "none". Pages with several rows are not expected: the value
// of the first one is returned.
func ValueIn(page []byte) string {
	var r row.PageReader
	r.Reset(page)
	var x row.Row
	for r.NextPartition() {
		for r.NextRow(&x) {
			for _, c := range x.Cells {
				if !c.Tombstone {
					return string(c.Value)
				}
			}
		}
	}
	return "none"
}

// paxos prints the acceptors' states of a key: the promised, accepted and committed ballots. A ballot is printed as its
// time since the start of the scenario (µs) and its node; #n is an update of n bytes. For example "1: promised=1/1 #31
// of 1 accepted=1/1".
func (s *script) paxos(d *datadriven.TestData) {
	// The acceptor keeps its state in this table, under the key of the partition.
	table := schema.Initial().Table("system", "paxos")
	for _, n := range s.c.Nodes {
		cmd := s.command(d)
		cmd.Table = table.StorageID
		page, err := n.Engine.Read(nil, cmd)
		if err != nil {
			s.t.Fatal(err)
		}
		s.c.printf("%d: %s", n.ID, acceptorText(table, page))
	}
}

// acceptorText formats the row of an acceptor's state. A key without Paxos state is "nothing".
func acceptorText(table *schema.Table, page []byte) string {
	var r row.PageReader
	r.Reset(page)
	var x row.Row
	var out []string
	for r.NextPartition() {
		for r.NextRow(&x) {
			// In the order of the columns, so the output is stable.
			for i := range x.Cells {
				if c := &x.Cells[i]; !c.Tombstone {
					out = append(out, paxosCell(table, c))
				}
			}
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " ")
}

// paxosCell formats a cell of an acceptor's state. It decodes the format of package paxos/acceptor and must be changed
// with it.
func paxosCell(table *schema.Table, c *row.Cell) string {
	name := table.ColumnByID(c.Column).Name
	// The clock of scenarios starts at this time.
	at := time.UnixMicro(c.Timestamp).Sub(time.Unix(1_000_000, 0)).Microseconds()
	switch name {
	case "most_recent_commit", "proposal":
		// The encoding of a proposal: its origin, three ballots, and a list of ballots come before the update.
		cursor := wire.NewCursor(c.Value)
		origin := time.UnixMicro(cursor.Varint()).Sub(time.Unix(1_000_000, 0)).Microseconds()
		cursor.Uvarint()
		for range 3 { // the prior ballot, the previous one, and the beginning of the history
			cursor.Varint()
			cursor.Uvarint()
		}
		for range cursor.Uvarint() {
			cursor.Varint()
			cursor.Uvarint()
		}
		return fmt.Sprintf("#%d of %d", cursor.Len(), origin)
	}
	short := map[string]string{"in_progress_ballot": "promised", "proposal_ballot": "accepted",
		"most_recent_commit_at": "decided"}[name]
	// The last byte of a ballot is the node that drew it: scenarios have fewer than 256 nodes.
	return fmt.Sprintf("%s=%d/%d", short, at, c.Value[15])
}

// casErrorText formats the errors that only conditional updates have; it returns "" for others.
func casErrorText(err error) string {
	var unknown *coordinator.CASUnknown
	if errors.As(err, &unknown) {
		return fmt.Sprintf("CASUnknown %s received=%d blockFor=%d", unknown.Consistency, unknown.Received,
			unknown.BlockFor)
	}
	return ""
}
