package ctl

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"cqld/node/control"
)

// statusCommand takes a keyspace whose replication determines the ownership. Without a keyspace, the node decides
// whether the keyspaces agree enough for one figure (Uneven).
type statusCommand struct {
	Keyspace string `arg:"" optional:"" help:"Compute ownership for this keyspace's replication."`
}

// Run prints the status of the members.
func (c *statusCommand) Run(s *session) error {
	return ask(s, control.StatusOf, control.KeyspaceArgs{Keyspace: c.Keyspace}, showStatus)
}

// uneven is nodetool's note about keyspaces with different replication, verbatim.
const uneven = "Note: Non-system keyspaces don't have the same replication settings, effective ownership " +
	"information is meaningless"

// showStatus prints a table for each data center, like nodetool status, and problems of clocks and backups below. For
// example:
//
//	Datacenter: dc1
//	===============
//	Status=Up/Down
//	|/ State=Normal/Leaving/Joining/Moving
//	--  Address    Load       Tokens  Owns   Host ID  Rack
//	UN  127.0.0.1  28.96 MiB  16      33.3%  ...      r1
func showStatus(w io.Writer, st control.Status) error {
	p := &printer{w: w}
	owns := "Owns"
	// "effective" means that replication was taken into account.
	if st.Effective {
		owns = "Owns (effective)"
	}
	// Data centers appear in the order in which the node lists their members.
	names, by := groups(st.Members, func(m control.Member) string { return m.Datacenter })
	for _, dc := range names {
		title := "Datacenter: " + dc
		p.line("%s\n%s\nStatus=Up/Down\n|/ State=Normal/Leaving/Joining/Moving", title, strings.Repeat("=", len(title)))
		t := newTable("--", "Address", "Load", "Tokens", owns, "Host ID", "Rack")
		for _, m := range by[dc] {
			// nodetool's two letters: Up or Down, and the state.
			t.row(upDown(m.Up)[:1]+m.State[:1], host(m.Address), load(m), fmt.Sprint(m.Tokens), owned(st, m), m.HostID,
				m.Rack)
		}
		p.table(t)
		p.line("")
	}
	for _, m := range st.Members {
		// nodetool's table, which scripts parse, has no column for clock problems.
		if text := clockText(m); text != "" {
			p.line("%s: %s", host(m.Address), text)
		}
	}
	for _, o := range st.Overdue {
		p.line("Backup schedule %s is overdue: it has no good backup since %s", o.Name, o.Last.UTC().Format(backupTime))
	}
	if st.Uneven {
		p.line(uneven)
	}
	return p.err
}

// clockAlarm is the clock offset that the output reports as a problem, the same as in the node's log.
const clockAlarm = 100 * time.Millisecond

// clockText describes a problem with a node's clock, or returns "". It reports a large offset in either direction, and
// any node that refuses clients because of its clock. ClockAhead is the offset from most other nodes that the member
// has reported, or 0.
func clockText(m control.Member) string {
	if m.ClockAhead < clockAlarm && m.ClockAhead > -clockAlarm && !m.ClockRefuses {
		return ""
	}
	text := clockOffset(m)
	if m.ClockRefuses {
		text += "; the node does not serve clients until the clocks are in sync"
	}
	return text
}

// clockOffset describes how far a clock differs.
func clockOffset(m control.Member) string {
	// The direction is spelled out, because a sign could be misread.
	if m.ClockAhead < 0 {
		return fmt.Sprintf("the clock is %v behind the other nodes", (-m.ClockAhead).Round(time.Millisecond))
	}
	return fmt.Sprintf("the clock is %v ahead of the other nodes", m.ClockAhead.Round(time.Millisecond))
}

// upDown returns the word of nodetool for a member's liveness.
func upDown(up bool) string {
	if up {
		return "Up"
	}
	return "Down"
}

// load returns the size of a member's data, or "?" if it did not respond, as in nodetool.
func load(m control.Member) string {
	if m.Load == nil {
		return "?"
	}
	return size(*m.Load)
}

// owned returns a member's ownership, or "?" if keyspaces differ, as in nodetool.
func owned(st control.Status, m control.Member) string {
	if st.Uneven {
		return "?"
	}
	return percent(m.Owns)
}

// ringCommand takes a keyspace whose replication determines the ownership.
type ringCommand struct {
	Keyspace string `arg:"" optional:"" help:"Compute ownership for this keyspace's replication."`
}

// Run prints the tokens.
func (c *ringCommand) Run(s *session) error {
	return ask(s, control.TokensOf, control.KeyspaceArgs{Keyspace: c.Keyspace}, showRing)
}

// showRing prints the tokens of each data center in ring order. Status and State are words, not the letters of status.
// Members is indexed by Token.Member, because a member has many tokens.
func showRing(w io.Writer, r control.Tokens) error {
	p := &printer{w: w}
	names, by := groups(r.Tokens, func(t control.Token) string { return r.Members[t.Member].Datacenter })
	for _, dc := range names {
		// A data center is listed only if it has a token, so there is a last one.
		tokens := by[dc]
		p.line("\nDatacenter: %s\n==========", dc)
		t := newTable("Address", "Rack", "Status", "State", "Load", "Owns", "Token")
		// nodetool shows the last token above the first.
		t.row("", "", "", "", "", "", fmt.Sprint(tokens[len(tokens)-1].Token)) // the ring wraps around
		for _, tok := range tokens {
			m := r.Members[tok.Member]
			t.row(host(m.Address), m.Rack, upDown(m.Up), m.State, load(m), owned(r.Status, m), fmt.Sprint(tok.Token))
		}
		p.table(t)
	}
	p.line("")
	if r.Uneven {
		p.line(uneven)
	}
	return p.err
}

// describeClusterCommand prints the metadata, and the versions of the nodes that respond.
type describeClusterCommand struct{}

// Run prints the state of the cluster metadata.
func (c *describeClusterCommand) Run(s *session) error {
	return ask(s, control.DescribeCluster, control.None{}, showCluster)
}

// showCluster prints the sections of nodetool describecluster, and the epoch. More than one schema version means that a
// node has not applied the latest entries of the metadata log.
func showCluster(w io.Writer, c control.Cluster) error {
	p := &printer{w: w}
	p.line("Cluster Information:\n\tName: %s\n\tPartitioner: %s\n\tEpoch: %d\n\tSchema versions:", c.Name,
		c.Partitioner, c.Epoch)
	for _, v := range slices.Sorted(maps.Keys(c.SchemaVersions)) {
		p.line("\t\t%s: [%s]", v, strings.Join(c.SchemaVersions[v], ", "))
	}
	// Live and Unreachable count by liveness, the other lines by state, so a node that is down counts twice.
	count := map[string]int{}
	for _, m := range c.Members {
		if m.Up {
			count["up"]++
		}
		count[m.State]++
	}
	p.line("\nStats for all nodes:\n\tLive: %d\n\tJoining: %d\n\tMoving: %d\n\tLeaving: %d\n\tUnreachable: %d",
		count["up"], count["Joining"],
		count["Moving"], count["Leaving"], len(c.Members)-count["up"])
	p.line("\nData Centers:")
	names, by := groups(c.Members, func(m control.Member) string { return m.Datacenter })
	for _, dc := range names {
		down := 0
		for _, m := range by[dc] {
			if !m.Up {
				down++
			}
		}
		p.line("\t%s #Nodes: %d #Down: %d", dc, len(by[dc]), down)
	}
	// Builds may differ during an upgrade. Nodes that did not respond are missing.
	p.line("\nDatabase versions:")
	for _, v := range slices.Sorted(maps.Keys(c.Versions)) {
		p.line("\t%s: [%s]", v, strings.Join(c.Versions[v], ", "))
	}
	p.line("\nKeyspaces:")
	for _, k := range c.Keyspaces {
		p.line("\t%s -> Replication class: %s", k.Name, k.Replication)
	}
	return p.err
}

// describeRingCommand requires a keyspace, whose replication determines the replicas.
type describeRingCommand struct {
	Keyspace string `arg:"" help:"The keyspace."`
}

// Run prints the token ranges.
func (c *describeRingCommand) Run(s *session) error {
	return ask(s, control.DescribeRing, control.KeyspaceArgs{Keyspace: c.Keyspace}, showRanges)
}

// showRanges prints the format of nodetool describering, with pending replicas where there are any. Ranges are (start,
// end]; the first may wrap around the ring.
func showRanges(w io.Writer, r control.Ranges) error {
	p := &printer{w: w}
	p.line("Schema Version:%s\nTokenRange: ", r.SchemaVersion)
	for _, t := range r.Ranges {
		var internode, native, details []string
		for _, m := range t.Endpoints {
			internode = append(internode, host(m.Address))
			native = append(native, host(m.Native))
			details = append(details, fmt.Sprintf("EndpointDetails(host:%s, datacenter:%s, rack:%s)", host(m.Address),
				m.Datacenter, m.Rack))
		}
		// Pending replicas are not part of nodetool's output, so they come last, and only during a ring change.
		pending := ""
		for i, m := range t.Pending {
			// The first element begins the list, the others follow a comma.
			pending += []string{", pending:[", ", "}[min(i, 1)] + host(m.Address)
		}
		if pending != "" {
			pending += "]"
		}
		p.line("\tTokenRange(start_token:%d, end_token:%d, endpoints:[%s], rpc_endpoints:[%s], "+
			"endpoint_details:[%s]%s)", t.Start, t.End,
			strings.Join(internode, ", "), strings.Join(native, ", "), strings.Join(details, ", "), pending)
	}
	return p.err
}

// endpointsCommand takes a partition key like nodetool getendpoints. The partition need not exist.
type endpointsCommand struct {
	Keyspace string `arg:"" help:"The keyspace."`
	Table    string `arg:"" help:"The table."`
	Key      string `arg:"" help:"The partition key: values as CQL literals, strings without quotes; columns separated by colons."`
}

// Run prints the replicas of a partition.
func (c *endpointsCommand) Run(s *session) error {
	return ask(s, control.EndpointsOf, control.EndpointsArgs{Keyspace: c.Keyspace, Table: c.Table, Key: c.Key},
		showEndpoints)
}

// showEndpoints prints one address per line, and nothing else, because scripts read it. Pending replicas, which receive
// writes but serve no reads yet, are marked.
func showEndpoints(w io.Writer, e control.Endpoints) error {
	p := &printer{w: w}
	for _, m := range e.Endpoints {
		p.line("%s", host(m.Address))
	}
	for _, m := range e.Pending {
		p.line("%s (pending)", host(m.Address))
	}
	return p.err
}
