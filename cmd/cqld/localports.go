package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"

	"cqld/node/config"
)

// ports are the ports of the first node of a ring. The other nodes use the same ports at other addresses or, if the
// system has only 127.0.0.1, consecutive ports.
type ports struct{ native, storage, tables uint16 }

// portStep is the distance between the ports that rings of one machine choose; it is more than localNodesMax. For
// example, the third ring of a machine uses the ports 9242, 7200 and 10202.
const portStep = 100

// portTries is how many rings may choose ports on one machine. The highest port is then 10002 + 49·100 = 14902, below
// Linux's range of ephemeral ports, which starts at 32768.
const portTries = 50

// layout assigns an address to every node: 127.0.0.1, 127.0.0.2, … with equal ports, or, if the system has only
// 127.0.0.1, that address with consecutive ports. An existing ring keeps its ports. A new one without flags uses the
// default ports, or free ones. It only listens briefly on each port to check that it is free.
func (c *localCommand) layout() ([]member, error) {
	// Clients and the other nodes know a ring by its ports, so an existing ring must keep them.
	kept, err := c.keptPorts()
	if err != nil {
		return nil, err
	}
	// Linux accepts all of 127.0.0.0/8 without configuration; other systems may not. Port 0 means any free port.
	many := free("127.0.0.2", 0) == nil
	if kept != nil {
		members, err := c.members(c.withFlags(*kept), many)
		if err != nil {
			return nil, err
		}
		if err := allFree(members); err != nil {
			return nil, fmt.Errorf("%w; the ring in %s keeps its ports", err, c.DataDir)
		}
		return members, nil
	}
	// All ports are shifted together, so the ports of one ring are recognizable.
	for i := range uint16(portTries) {
		p := c.withFlags(ports{9042 + i*portStep, 7000 + i*portStep, 10002 + i*portStep})
		members, wrong := c.members(p, many)
		// Ports from flags do not change, so every attempt would fail.
		if wrong != nil {
			return nil, wrong
		}
		err = allFree(members)
		if err == nil {
			return members, nil
		}
		// All ports are given, so another attempt would try the same ones.
		if c.Port != nil && c.TablesPort != nil && c.StoragePort != nil {
			break
		}
	}
	return nil, fmt.Errorf("%w; is another ring or node running? Set --port, --tables-port and --storage-port", err)
}

// keptPorts returns the ports of the ring in the data directory, or nil if there is none. It returns an error if
// --storage-port differs from the ring's port, because members are registered with their internode addresses. The ports
// for clients may change at each start. All ports follow from those of node1.
func (c *localCommand) keptPorts() (*ports, error) {
	present, err := ringConfigs(c.DataDir)
	if err != nil || len(present) == 0 || c.Fresh {
		return nil, err
	}
	o := config.Default()
	if err := o.LoadFile(filepath.Join(c.DataDir, "node1", nodeConfig)); err != nil {
		return nil, err
	}
	if c.StoragePort != nil && *c.StoragePort != o.Listen.StoragePort {
		return nil, fmt.Errorf("--storage-port: the ring in %s has port %d between its nodes, and keeps it; use "+
			"--fresh or another --data-dir",
			c.DataDir, o.Listen.StoragePort)
	}
	return &ports{o.Listen.NativePort, o.Listen.StoragePort, o.Tables.Port}, nil
}

// withFlags returns the ports, replaced by those that flags set. Ports from flags are not shifted.
func (c *localCommand) withFlags(p ports) ports {
	setIf(&p.native, c.Port)
	setIf(&p.storage, c.StoragePort)
	setIf(&p.tables, c.TablesPort)
	return p
}

// members returns the nodes with their addresses: many, or one with consecutive ports. It returns an error that names
// the flag if the last node's port would exceed 65535.
func (c *localCommand) members(p ports, many bool) (out []member, err error) {
	if !many {
		for _, f := range []struct {
			flag  string
			first uint16
		}{{"--port", p.native}, {"--storage-port", p.storage}, {"--tables-port", p.tables}} {
			if last := int(f.first) + c.Nodes - 1; last > math.MaxUint16 {
				return nil, fmt.Errorf("%s: the system has one loopback address, on which %d nodes would use the "+
					"ports %d to %d; the largest port is %d", f.flag, c.Nodes, f.first, last, math.MaxUint16)
			}
		}
	}
	for i := range c.Nodes {
		// The ports of later nodes follow from the first node's.
		m := member{index: i + 1, address: "127.0.0.1", port: p.native, storage: p.storage, tables: p.tables,
			dir: filepath.Join(c.DataDir, fmt.Sprintf("node%d", i+1)), center: c.center(i)}
		if many {
			m.address = fmt.Sprintf("127.0.0.%d", i+1)
		} else {
			m.port += uint16(i)
			m.storage += uint16(i)
			// Port 0 disables Azure Tables and stays 0.
			if m.tables != 0 {
				m.tables += uint16(i)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// allFree returns an error that names the first port of the members that is in use, or that two listeners of the ring
// would use.
func allFree(members []member) error {
	// free closes each port before the next is tried, so duplicates must be detected separately.
	taken := map[string]bool{}
	for _, m := range members {
		for _, port := range []uint16{m.port, m.storage, m.tables} {
			listener := net.JoinHostPort(m.address, strconv.Itoa(int(port)))
			if port != 0 && taken[listener] {
				return fmt.Errorf("two listeners of the ring would use %s", listener)
			}
			taken[listener] = true
		}
	}
	for _, m := range members {
		for _, port := range []uint16{m.port, m.storage, m.tables} {
			if port == 0 {
				continue
			}
			// The first conflict suffices: the caller reports it or tries other ports.
			if err := free(m.address, port); err != nil {
				return fmt.Errorf("%s:%d is in use (%w)", m.address, port, err)
			}
		}
	}
	return nil
}

// free listens briefly on a port, and returns an error if that is not possible. Another process may take the port
// before the node does; the node then exits, and the ring does not start. The error has no address, for example "bind:
// address already in use".
func free(address string, port uint16) error {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
	if err != nil {
		// The OpError's message contains the address, which the caller adds itself.
		var op *net.OpError
		if errors.As(err, &op) {
			return op.Err
		}
		return err
	}
	return l.Close()
}
