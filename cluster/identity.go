package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"cqld/cluster/raftlog"
	"cqld/internal/env"
	"cqld/internal/uuid"
	"cqld/ring"
)

// identity is what a node stores about itself from the first use of its disk.
type identity struct {
	Host ring.HostID
	Disk [16]byte
	Node ring.NodeID // zero until the node is admitted
	// Founder means that this node started to create the cluster, and must complete that after a crash.
	Founder bool
	// Peers are the members at the time of the admission. With them the node reaches the log while its own is empty.
	Peers map[ring.NodeID]netip.AddrPort
}

// loadIdentity reads the identity in a log; in an empty log it draws one and stores it.
func loadIdentity(log *raftlog.Log, r env.Rand) (identity, error) {
	var id identity
	b, err := log.Identity()
	if err != nil {
		return id, fmt.Errorf("cluster: %w", err)
	}
	if b == nil {
		id = identity{Host: ring.HostID(uuid.Random(r)), Disk: uuid.Random(r)}
		// Durable before it is used: the node must keep it for ever.
		return id, id.save(log)
	}
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("cluster: read identity: %w", err)
	}
	return id, nil
}

// save makes the identity durable.
func (id *identity) save(log *raftlog.Log) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := log.SaveIdentity(b); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}
