package ctl

import (
	"fmt"
	"io"
	"strings"

	"cqld/node/control"
)

// rangesCommand shows the busiest or largest ranges, as the node that answers knows them.
type rangesCommand struct {
	Sort  string `enum:"load,bytes,token" default:"load" help:"Order of the ranges: load, bytes or token."`
	Count int    `short:"k" default:"20" help:"Number of ranges to show; 0 shows all."`
}

// Run prints the load of the nodes and of the ranges.
func (c *rangesCommand) Run(s *session) error {
	return ask(s, control.RangesOf, control.RangesArgs{Sort: c.Sort, Limit: c.Count}, showLoads)
}

// showLoads prints a table of the nodes and one of the ranges. A node that has not reported has dashes.
func showLoads(w io.Writer, l control.RangeLoads) error {
	p := &printer{w: w}
	t := newTable("Node", "Ranges", "Size", "Of size", "Reads/s", "Writes/s", "Charge/s", "2 min", "Of charge",
		"CPU").alignRight(1, 2, 3, 4, 5, 6, 7, 8, 9)
	for _, n := range l.Nodes {
		if !n.Reported {
			t.row(host(n.Member.Address), "-", "-", "-", "-", "-", "-", "-", "-", "-")
			continue
		}
		t.row(host(n.Member.Address), fmt.Sprint(n.Ranges), size(n.Bytes), percent(n.BytesShare), perSecond(n.Reads),
			perSecond(n.Writes), perSecond(n.Charge), perSecond(n.ChargeSlow), percent(n.Share), percent(n.CPU))
	}
	p.table(t)
	if len(l.Ranges) == 0 {
		p.line("\nNo node has reported ranges yet.")
		return p.err
	}
	p.line("\nRanges (%d of %d), summed over their nodes; a charge of 1 is a point read of 1 KiB on one node:",
		len(l.Ranges), l.All)
	t = newTable("Start token", "End token", "Size", "Reads/s", "Writes/s", "Charge/s", "2 min", "Of charge",
		"Nodes", "Hottest key").alignRight(0, 1, 2, 3, 4, 5, 6, 7)
	for i := range l.Ranges {
		r := &l.Ranges[i]
		t.row(fmt.Sprint(r.Start), fmt.Sprint(r.End), size(r.Bytes), perSecond(r.Reads), perSecond(r.Writes),
			perSecond(r.Charge), perSecond(r.ChargeSlow), percent(r.Share), nodesOf(r), hottestOf(r.Hottest))
	}
	p.table(t)
	return p.err
}

// perSecond formats a rate. Small rates have a digit after the point.
func perSecond(rate float64) string {
	if rate < 9.95 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// nodesOf lists the nodes of a range, the busiest one first.
func nodesOf(r *control.RangeLoad) string {
	names := []string{r.Busiest}
	for _, n := range r.Nodes {
		if n != r.Busiest {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// hottestOf names the hottest key of a range, or its token if the node that answered does not know the key.
func hottestOf(h *control.HotKey) string {
	if h == nil {
		return "-"
	}
	key := h.Key
	if key == "" {
		key = fmt.Sprintf("token %d", h.Token)
	}
	return fmt.Sprintf("%s.%s %s (%s)", h.Keyspace, h.Table, key, percent(h.Share))
}
