package main

import (
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
