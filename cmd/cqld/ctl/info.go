package ctl

import (
	"fmt"
	"io"
	"strings"
	"time"

	"cqld/node/control"
)

// infoCommand prints the state of one node. Unlike nodetool info, it also shows whether the clock, the metadata and the
// disk allow the node to serve.
type infoCommand struct {
	Tokens bool `short:"T" help:"List all tokens."`
}

// Run prints the node's state and statistics.
func (c *infoCommand) Run(s *session) error {
	return ask(s, control.InfoOf, control.None{}, func(w io.Writer,
		i control.Info) error {
		return showInfo(w, i, c.Tokens)
	})
}

// showInfo prints nodetool's fields in nodetool's order, and fields of cqld. Scripts parse these lines, so names and
// columns must not change; fields may be added.
func showInfo(w io.Writer, i control.Info, tokens bool) error {
	p := &printer{w: w}
	// The width fits the longest name, as in nodetool.
	field := func(name, format string, args ...any) { p.line("%-23s: %s", name, fmt.Sprintf(format, args...)) }
	field("ID", "%s", i.HostID)
	field("Version", "%s", i.Version)
	field("Cluster version", "%d, this build supports %s", i.ClusterVersion,
		versionsText(i.OldestVersion, i.NewestVersion))
	field("Mode", "%s", i.Mode)
	field("Native Transport active", "%t", i.NativeActive)
	field("Load", "%s", load(i.Member))
	field("Uptime (seconds)", "%d", int64(i.Uptime.Seconds()))
	// nodetool prints megabytes of 1,048,576 bytes without their unit.
	heap := fmt.Sprintf("%.2f", float64(i.HeapUsed)/(1<<20))
	// Without a memory limit of the Go runtime, only the use is shown.
	if i.HeapLimit > 0 {
		heap += fmt.Sprintf(" / %.2f", float64(i.HeapLimit)/(1<<20))
	}
	field("Heap Memory (MB)", "%s", heap)
	showMemory(field, &i.Memory)
	field("Goroutines", "%d", i.Goroutines)
	field("Clients", "%d", i.Clients)
	field("Data Center", "%s", i.Datacenter)
	field("Rack", "%s", i.Rack)
	field("Internode encryption", "%s", internodeText(i.Internode))
	// Without a certificate, the node does not encrypt.
	if i.Internode.Certificate != "" {
		field("Internode certificate", "expires %s", i.Internode.Certificate)
	}
	clock := clockText(i.Member)
	// The offset is shown even if it is small.
	if clock == "" {
		clock = fmt.Sprintf("in sync with the other nodes (%v)", i.ClockAhead.Round(time.Millisecond))
	}
	field("Clock", "%s", clock)
	// If a majority is missing, the message replaces the count.
	voters := i.Voters.Missing
	if voters == "" {
		voters = fmt.Sprintf("%d of %d alive, %d needed", i.Voters.Alive, i.Voters.Voters, i.Voters.Required)
	}
	field("Metadata voters", "%s", voters)
	showCache := func(name string, used, capacity, hits, misses int64) {
		// As in nodetool, there is no rate before the first request.
		rate := "NaN"
		if hits+misses > 0 {
			rate = fmt.Sprintf("%.3f", float64(hits)/float64(hits+misses))
		}
		field(name, "size %s, capacity %s, %d hits, %d requests, %s hit rate", size(used), size(capacity), hits,
			hits+misses, rate)
	}
	showCache("Block Cache", i.CacheSize, i.CacheCapacity, i.CacheHits, i.CacheMisses)
	showCache("Row Cache", i.RowCacheSize, i.RowCacheCapacity, i.RowCacheHits, i.RowCacheMisses)
	state := "writes accepted"
	if i.DiskFull {
		state = "WRITES REFUSED until space is free"
	}
	field("Disk", "%s free of %s, %s", size(i.DiskFree), size(i.DiskTotal), state)
	showEncryption(field, i.Keys)
	field("Hints pending", "%d", i.Hints)
	// Corrupt files are quarantined by name; a repair with --corrupted restores their ranges.
	corrupt := "none"
	if len(i.Corrupt) > 0 {
		corrupt = strings.Join(i.Corrupt, ", ")
	}
	field("Corrupt files", "%s", corrupt)
	// Tokens are many, so they are shown only if requested.
	if !tokens {
		field("Token", "(invoke with -T/--tokens to see all %d tokens)", len(i.ListOfTokens))
		return p.err
	}
	for _, t := range i.ListOfTokens {
		field("Token", "%d", t)
	}
	return p.err
}

// showMemory prints the parts of a node's memory with their limits, and the kernel's figure next to their sum. The two
// come from different sources and need not be equal.
func showMemory(field func(name, format string, args ...any), m *control.Memory) {
	field("Memory limit", "%s, %s", size(m.Limit), m.Source)
	for _, p := range m.Parts {
		field("  "+p.Name, "%s of %s", size(p.Used), size(p.Bound))
	}
	field("  sum", "%s", size(m.Sum))
	field("Resident", "%s as the kernel counts, %s in the cgroup with its page cache", size(m.Resident), size(m.Cgroup))
	h := &m.Heap
	field("Go runtime", "%s live, %s garbage, %s unused, %s free, %s stacks, %s metadata", size(h.Live),
		// Live is from the last garbage collection, so it may exceed the current objects.
		size(max(h.Objects-h.Live, 0)),
		size(h.Unused), size(h.Free), size(h.Stacks), size(h.Metadata))
}

// internodeText describes the encryption of the connections with other nodes.
func internodeText(i control.Internode) string {
	return fmt.Sprintf("%s; %d of %d connections from and %d of %d to other nodes are encrypted", i.Encryption,
		i.FromEncrypted, i.From,
		i.ToEncrypted, i.To)
}
