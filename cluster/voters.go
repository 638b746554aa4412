package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"cqld/ring"
)

// Bounds of the voting members; the other members are learners. Five voters survive the loss of two. Seven are used in
// rings of at least three data centers, so that the loss of one of them leaves a spare voter in most cases.
const (
	votersMax            = 5
	votersMaxDatacenters = 7
)

// candidate is a member that may vote.
type candidate struct {
	id               uint64
	datacenter, rack string
	votes            bool // it is a voter now
	alive            bool // as the leader sees it
	leads            bool
}

// chooseVoters returns the members that should vote, ascending. It depends on its argument only.
//
//  1. The number of voters is odd, or zero without candidates.
//  2. With three or more data centers, or one data center of three or more racks, no data center (rack) has a majority:
//     the loss of any one of them leaves a majority.
//  3. Among the numbers that allow this, the largest one up to the maximum is chosen. The voters are spread as evenly
//     as the members allow over data centers, and within a data center over racks.
//  4. Members that vote keep their vote if they can: the result for the chosen voters is these voters, whichever of the
//     others are candidates or lead.
func chooseVoters(candidates []candidate) []uint64 {
	all := group{members: slices.Clone(candidates)}
	domains := all.split(func(c candidate) string { return c.datacenter })
	most := votersMax
	switch {
	case len(domains) >= 3:
		most = votersMaxDatacenters
	case len(domains) == 1:
		domains = all.split(func(c candidate) string { return c.rack })
	}
	seats, limit := seatsOf(domains, most)
	var ids []uint64
	for i, n := range distribute(domains, seats, limit) {
		racks := domains[i].split(func(c candidate) string { return c.rack })
		for j, n := range distribute(racks, n, n) {
			for _, c := range racks[j].ranked()[:n] {
				ids = append(ids, c.id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// seatsOf returns the number of voters and the largest number in one domain.
func seatsOf(domains []group, most int) (seats, limit int) {
	for seats = most; seats > 0; seats -= 2 {
		sum := 0
		limit = seats
		if len(domains) >= 3 && seats > 1 {
			limit = (seats - 1) / 2
		}
		for _, d := range domains {
			sum += min(limit, len(d.members))
		}
		if sum >= seats {
			return seats, limit
		}
	}
	return 0, 0
}

// distribute gives seats to groups, one after the other to a group that has the fewest and may have more. Groups with
// more voters precede, so that an uneven rest stays where it is.
func distribute(groups []group, seats, limit int) []int {
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &groups[i], &groups[j]
		return cmp.Or(cmp.Compare(b.count(candidate.voter), a.count(candidate.voter)),
			cmp.Compare(b.count(candidate.leader), a.count(candidate.leader)), cmp.Compare(a.oldest(), b.oldest()))
	})
	out := make([]int, len(groups))
	for ; seats > 0; seats-- {
		next := -1
		for _, i := range order {
			if out[i] < min(limit, len(groups[i].members)) && (next < 0 || out[i] < out[next]) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		out[next]++
	}
	return out
}

// group contains the candidates of a data center or a rack.
type group struct{ members []candidate }

// split divides the members by name; the order of the groups depends on the names only.
func (g group) split(name func(candidate) string) (out []group) {
	members := slices.Clone(g.members)
	slices.SortStableFunc(members, func(a, b candidate) int { return cmp.Compare(name(a), name(b)) })
	for i, c := range members {
		if i == 0 || name(members[i-1]) != name(c) {
			out = append(out, group{})
		}
		last := &out[len(out)-1]
		last.members = append(last.members, c)
	}
	return out
}

// ranked returns the members in the order in which they are chosen: voters first, live ones before dead ones, the
// leader, then the oldest.
func (g group) ranked() []candidate {
	out := slices.Clone(g.members)
	rank := func(c candidate) int {
		n := 0
		for i, yes := range []bool{c.leads, c.alive, c.votes} {
			if yes {
				n |= 1 << i
			}
		}
		return -n
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.id, b.id))
	})
	return out
}

func (g group) count(which func(candidate) bool) (n int) {
	for _, c := range g.members {
		if which(c) {
			n++
		}
	}
	return n
}

func (g group) oldest() uint64 {
	return slices.MinFunc(g.members, func(a, b candidate) int { return cmp.Compare(a.id, b.id) }).id
}

func (c candidate) voter() bool  { return c.votes }
func (c candidate) leader() bool { return c.leads }

// The number of ticks after which another member votes instead of a dead one, if that leaves more voters to spare. It
// is longer than a restart of a machine takes.
const voterDeadTicks = uint64(5 * time.Minute / tickEvery)

// candidates returns the members that may vote: those that do, and others that are alive and have the log. A node
// becomes a voter only when it has the log: a majority that must wait for a node that was admitted but never started
// could commit nothing, not even a change of membership.
func (d *driver) candidates(members []*ring.Node) (out []candidate) {
	progress := d.node.Status().Progress
	for _, n := range members {
		id := uint64(n.ID)
		self := n.ID == d.self
		c := candidate{id: id, datacenter: n.Datacenter, rack: n.Rack, leads: self, alive: self || d.c.Alive(n.ID),
			votes: slices.Contains(d.conf.GetVoters(), id)}
		if c.votes || c.alive && d.ready(progress, id) {
			out = append(out, c)
		}
	}
	return out
}

// wantedVoters returns the members that should vote. Voters that were dead for long are replaced if more voters are to
// spare then.
func (d *driver) wantedVoters(members []*ring.Node) []uint64 {
	all := d.candidates(members)
	next := chooseVoters(all)
	usable := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool {
		return !c.alive && d.c.deadFor(ring.NodeID(c.id)) >= voterDeadTicks
	})
	if len(usable) == len(all) {
		return next
	}
	if instead := chooseVoters(usable); spare(all, instead) > spare(all, next) {
		return instead
	}
	return next
}

// spare returns the number of live voters that the others can do without; negative if there is no majority.
func spare(all []candidate, voters []uint64) (n int) {
	for _, c := range all {
		if c.alive && slices.Contains(voters, c.id) {
			n++
		}
	}
	return n - (len(voters)/2 + 1)
}

// newVoters returns the changes towards the voters that should be. They are made in one step: between two steps, a
// majority could depend on a voter that is down. If this node should not vote, it first makes another voter the leader.
func (d *driver) newVoters(members []*ring.Node) (changes []*pb.ConfChangeSingle) {
	voting, next := d.conf.GetVoters(), d.wantedVoters(members)
	if len(next) == 0 || spare(d.candidates(members), next) < 0 {
		return nil // the change could not be committed
	}
	if !slices.Contains(next, uint64(d.self)) {
		if to := d.successor(next); to != 0 {
			d.reconfigured = max(1, d.c.ticks)
			d.node.TransferLeader(to)
			return nil
		}
		next = append(next, uint64(d.self)) // until one of the others votes
	}
	for _, id := range next {
		if !slices.Contains(voting, id) {
			changes = append(changes, confChange(pb.ConfChangeAddNode, id))
		}
	}
	for _, id := range voting {
		if !slices.Contains(next, id) {
			changes = append(changes, confChange(pb.ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

// successor returns a voter among ids that can lead, or zero.
func (d *driver) successor(ids []uint64) uint64 {
	progress := d.node.Status().Progress
	for _, id := range ids {
		if p, ok := progress[id]; ok && p.RecentActive && d.c.Alive(ring.NodeID(id)) &&
			slices.Contains(d.conf.GetVoters(), id) {
			return id
		}
	}
	return 0
}

// Voters describes who decides about the metadata, as this node knows it.
type Voters struct {
	// IDs are the voters, ascending; while they change, those of both sets.
	IDs []ring.NodeID
	// Leader is zero if this node knows none.
	Leader ring.NodeID
	// Alive is the number of live voters, and Required how many a decision needs. While the voters change, they
	// describe the set of voters that is further from its majority.
	Alive, Required int
	// Down are the dead voters, ascending.
	Down []ring.NodeID
}

// Majority reports whether enough voters are alive.
func (v *Voters) Majority() bool { return v == nil || v.Alive >= v.Required }

// Voters returns the voters at the last check; nil before this node is a member. It is safe for concurrent use.
func (c *Cluster) Voters() *Voters { return c.voters.Load() }

// How long a majority may be missing before this node logs it, and the interval of the log messages, in ticks.
const (
	majorityLogTicks = uint64(5 * time.Second / tickEvery)
	majorityLogEvery = uint64(time.Minute / tickEvery)
)

// noteVoters publishes the voters, and logs that no majority of them is alive. The loop calls it.
func (c *Cluster) noteVoters() {
	if c.driver == nil || c.driver.conf == nil || len(c.driver.conf.GetVoters()) == 0 {
		return
	}
	v := c.driver.voters()
	if old := c.voters.Load(); old == nil || !old.equal(v) {
		c.voters.Store(v)
	}
	short := &c.majority
	switch {
	case v.Majority() && short.logged != 0:
		c.opts.Logger.Info("a majority of the metadata voters is alive", "alive", v.Alive, "required", v.Required)
		fallthrough
	case v.Majority():
		*short = missingMajority{}
	case short.since == 0:
		short.since = c.ticks
	case c.ticks-short.since >= majorityLogTicks && (short.logged == 0 || c.ticks-short.logged >= majorityLogEvery):
		short.logged = c.ticks
		c.opts.Logger.Error("no majority of the metadata voters is alive: changes of schema, roles and members wait "+
			"for one",
			"alive", v.Alive, "required", v.Required, "down", c.names(v.Down))
	}
}

// missingMajority contains the ticks since which a majority is missing, and of the last log message; zero means none.
type missingMajority struct{ since, logged uint64 }

// voters returns the voters as this node knows them.
func (d *driver) voters() *Voters {
	v := &Voters{Leader: ring.NodeID(d.node.BasicStatus().Lead)}
	for i, ids := range [][]uint64{d.conf.GetVoters(), d.conf.GetVotersOutgoing()} {
		alive := 0
		for _, id := range ids {
			id := ring.NodeID(id)
			if d.c.Alive(id) {
				alive++
			} else {
				v.Down = append(v.Down, id)
			}
			v.IDs = append(v.IDs, id)
		}
		if need := len(ids)/2 + 1; i == 0 || len(ids) > 0 && alive-need < v.Alive-v.Required {
			v.Alive, v.Required = alive, need
		}
	}
	slices.Sort(v.IDs)
	slices.Sort(v.Down)
	v.IDs, v.Down = slices.Compact(v.IDs), slices.Compact(v.Down)
	return v
}

func (v *Voters) equal(o *Voters) bool {
	return v.Leader == o.Leader && v.Alive == o.Alive && v.Required == o.Required && slices.Equal(v.IDs, o.IDs) &&
		slices.Equal(v.Down, o.Down)
}

// names returns the addresses of members.
func (c *Cluster) names(ids []ring.NodeID) (out []string) {
	t := c.Metadata().Topology
	for _, id := range ids {
		out = append(out, t.NameOf(id))
	}
	return out
}

// MajorityError describes a missing majority of the voters for an operator. Nil means that a majority is alive, or that
// this node is not a member yet. It is safe for concurrent use.
func (c *Cluster) MajorityError() error { return c.describeMajority(c.Voters()) }

// majorityError is MajorityError at present. The loop calls it.
func (c *Cluster) majorityError() error {
	if c.driver == nil || len(c.driver.conf.GetVoters()) == 0 {
		return nil
	}
	return c.describeMajority(c.driver.voters())
}

func (c *Cluster) describeMajority(v *Voters) error {
	if v.Majority() {
		return nil
	}
	return fmt.Errorf("only %d of the metadata voters are alive and %d are needed (down: %s): changes of schema, "+
		"roles and members "+
		"wait for them", v.Alive, v.Required, strings.Join(c.names(v.Down), ", "))
}
