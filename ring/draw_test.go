package ring

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestDraw draws rings. Its commands are:
//
//	ring                         lines of: id datacenter rack token…, tokens as eighths of the ring or as numbers
//	grow nodes=4 [racks=2]       nodes that join one after the other with 16 tokens each
//	draw                         the owner of each range, as first replica
//	draw                         with a line "simple 3" or "network dc1=2": the replicas of each range in order
//	replicas                     lines of tokens; the same first line
func TestDraw(t *testing.T) {
	datadriven.Walk(t, "testdata/draw", func(t *testing.T, path string) {
		var top *Topology
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "ring":
				top = parseRing(t, d.Input)
				return ""
			case "grow":
				n, racks := 0, 1
				d.ScanArgs(t, "nodes", &n)
				d.MaybeScanArgs(t, "racks", &racks)
				var places []member
				for i := range racks {
					places = append(places, member{"dc1", fmt.Sprint("r", i+1)})
				}
				top = growth(cycle(n, places...)...)[n-1]
				return fmt.Sprintf("%d tokens", len(top.Tokens()))
			case "draw":
				r := Replication{Class: Simple, Factor: 1}
				if d.Input != "" {
					r = parseReplication(t, strings.Fields(d.Input))
				}
				return draw(top.Placement(r))
			case "replicas":
				first, rest, _ := strings.Cut(d.Input, "\n")
				p := top.Placement(parseReplication(t, strings.Fields(first)))
				var b strings.Builder
				for _, w := range strings.Fields(rest) {
					tok := parseToken(t, w)
					fmt.Fprintf(&b, "%s: %s\n", w, joinIDs(p.Replicas(tok).Natural))
				}
				return b.String()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func parseRing(t *testing.T, input string) *Topology {
	t.Helper()
	var nodes []*Node
	for _, line := range strings.Split(input, "\n") {
		words := strings.Fields(line)
		n := &Node{ID: NodeID(parseInt(t, words[0])), Datacenter: words[1], Rack: words[2], State: Normal}
		for _, w := range words[3:] {
			if w == "joining" {
				n.State = Joining
				continue
			}
			n.Tokens = append(n.Tokens, parseToken(t, w))
		}
		nodes = append(nodes, n)
	}
	return NewTopology(1, nodes)
}

// parseToken parses a token, or a fraction of the ring such as 3/8.
func parseToken(t *testing.T, s string) Token {
	t.Helper()
	part, of, ok := strings.Cut(s, "/")
	if !ok {
		return Token(parseInt(t, s))
	}
	return Token(1<<63 + uint64(float64(parseInt(t, part))/float64(parseInt(t, of))*ringSize))
}

// drawColumns is the number of parts of a drawn ring. Each shows the replicas at its middle.
const drawColumns = 64

// draw returns a line for each node: 1 where it is the first replica, 2 the second, and its share of the ring, as first
// replica and as any replica.
func draw(p *Placement) string {
	var b strings.Builder
	for _, n := range p.Topology().Nodes() {
		fmt.Fprintf(&b, "%2d %s %s ", n.ID, n.Datacenter, n.Rack)
		for c := range drawColumns {
			set := p.Replicas(Token(uint64(1)<<63 + uint64((float64(c)+0.5)/drawColumns*ringSize)))
			mark := "."
			for k, id := range set.Natural {
				if id == n.ID {
					mark = fmt.Sprint(k + 1)
				}
			}
			b.WriteString(mark)
		}
		first, any := 0.0, 0.0
		for _, rr := range p.Ranges(FullRange()) {
			w := float64(uint64(rr.Range.End)-uint64(rr.Range.Start)) / ringSize * 100
			for k, id := range rr.Replicas.Natural {
				if id == n.ID {
					any += w
					if k == 0 {
						first += w
					}
				}
			}
		}
		fmt.Fprintf(&b, " %5.1f%% %5.1f%%\n", first, any)
	}
	return b.String()
}
