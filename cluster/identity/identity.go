package identity

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"cqld/cluster/metadata"
	"cqld/cluster/raftlog"
	"cqld/internal/env"
	"cqld/internal/uuid"
	"cqld/ring"
)

// Identity is what a node stores about itself from the first use of its disk.
type Identity struct {
	Host ring.HostID
	Disk [16]byte
	Node ring.NodeID // zero until the node is admitted
	// Founder means that this node started to create the cluster, and completes the creation after a crash.
	Founder bool
	// Peers are the members at the time of the admission. With them the node receives the log while its own is empty.
	Peers map[ring.NodeID]netip.AddrPort
	// Recoveries are the recoveries of the cluster, oldest first, as the metadata list them. The last one identifies
	// the cluster of this node to other nodes; a node that was admitted has them before it has any metadata.
	Recoveries []metadata.Recovery `json:",omitempty"`
}

// Load reads the identity in a log. In an empty log it generates one and stores it.
func Load(log *raftlog.Log, r env.Rand) (Identity, error) {
	var id Identity
	b, err := log.Identity()
	if err != nil {
		return id, fmt.Errorf("cluster: %w", err)
	}
	if b == nil {
		id = Identity{Host: ring.HostID(uuid.Random(r)), Disk: uuid.Random(r)}
		// Saved before it is used, because it must never change.
		return id, id.Save(log)
	}
	return Decode(b)
}

// Decode decodes what Encode has encoded.
func Decode(b []byte) (id Identity, err error) {
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("cluster: read identity: %w", err)
	}
	return id, nil
}

// Encode returns the identity as it is stored.
func (id *Identity) Encode() ([]byte, error) { return json.Marshal(id) }

// Save makes the identity durable.
func (id *Identity) Save(log *raftlog.Log) error {
	b, err := id.Encode()
	if err != nil {
		return err
	}
	if err := log.SaveIdentity(b); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}
