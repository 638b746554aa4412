package main

import (
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
)

// TestNewRingsTakeFreePorts lays out rings of two nodes while the ports of others are in use: without flags, all three
// ports change together; with flags, they are kept or refused. A ring keeps its ports when it starts again.
func TestNewRingsTakeFreePorts(t *testing.T) {
	if free("127.0.0.2", 0) != nil {
		t.Skip("the system has one loopback address")
	}
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := uint16(l.Addr().(*net.TCPAddr).Port)
	none := uint16(0)
	dir := t.TempDir()
	c := localCommand{Nodes: 2, Datacenters: 1, DataDir: dir}
	members, err := c.layout()
	if err != nil {
		t.Fatal(err)
	}
	p := members[0]
	if p.port-9042 != p.storage-7000 || p.port-9042 != p.tables-10002 || members[1].port != p.port ||
		members[1].address != "127.0.0.2" {
		t.Errorf("%+v", members)
	}
	c.Port = &busy
	if _, err := c.layout(); err == nil || !strings.Contains(err.Error(), "is in use") ||
		!strings.Contains(err.Error(), "--port") {
		t.Errorf("a port in use: %v", err)
	}
	c.Port, c.TablesPort = nil, &none
	if members, err = c.layout(); err != nil || members[0].tables != 0 {
		t.Errorf("without Azure Tables: %+v, %v", members, err)
	}
	if err := c.prepareData(members); err != nil {
		t.Fatal(err)
	}
	again, err := (&localCommand{Nodes: 2, Datacenters: 1, DataDir: dir}).layout()
	if err != nil || again[1] != members[1] {
		t.Errorf("a ring that starts again: %+v, %v, want %+v", again, err, members)
	}
	other := &localCommand{Nodes: 2, Datacenters: 1, DataDir: dir, StoragePort: &busy}
	if _, err := other.layout(); err == nil || !strings.Contains(err.Error(), "--storage-port") {
		t.Errorf("another port between the nodes: %v", err)
	}
}

// TestPortsOfARingAreDifferent lays out rings of up to localNodesMax nodes that share one address, at the end of the
// range of ports: either each port is in it, or the error names the flag.
func TestPortsOfARingAreDifferent(t *testing.T) {
	for flag, at := range map[string]func(first uint16) ports{
		"--port":         func(first uint16) ports { return ports{first, 7000, 10002} },
		"--storage-port": func(first uint16) ports { return ports{9042, first, 10002} },
		"--tables-port":  func(first uint16) ports { return ports{9042, 7000, first} },
	} {
		for nodes := 1; nodes <= localNodesMax; nodes++ {
			c := localCommand{Nodes: nodes, Datacenters: 1}
			first := math.MaxUint16 - nodes + 1
			members, err := c.members(at(uint16(first)), false)
			if err != nil || len(members) != nodes {
				t.Fatalf("%s=%d with %d nodes: %d members, %v", flag, first, nodes, len(members), err)
			}
			if last := members[nodes-1]; max(last.port, last.storage, last.tables) != math.MaxUint16 {
				t.Errorf("%s=%d with %d nodes: %+v", flag, first, nodes, last)
			}
			if nodes == 1 {
				continue
			}
			if _, err := c.members(at(uint16(first+1)), false); err == nil ||
				!strings.HasPrefix(err.Error(), flag+": ") || !strings.Contains(err.Error(), fmt.Sprint(first+nodes)) {
				t.Errorf("%s=%d with %d nodes: %v", flag, first+1, nodes, err)
			}
		}
	}
	// Two ports of a node, and two of different nodes with consecutive ports.
	for _, p := range []ports{{19042, 19042, 0}, {19042, 19044, 0}, {19042, 17000, 19041}} {
		c := localCommand{Nodes: 4, Datacenters: 1}
		members, err := c.members(p, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := allFree(members); err == nil || !strings.Contains(err.Error(), "two listeners") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
