package scenario

import (
	"slices"
	"strconv"
	"time"

	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// postbox is a node's messaging.Transport. Payloads are copied when they are sent, because senders reuse their memory.
type postbox struct {
	n *Node
	// process is the process that sends. Replies and timeouts do not reach its successor.
	process *process
}

// verbNames are the names of messages in scenario files. A verb without a name is shown as an empty text; scenarios of
// its package should add it here.
var verbNames = map[messaging.Verb]string{
	messaging.VerbMutation: "mutation", messaging.VerbRead: "read", messaging.VerbDigest: "digest",
	messaging.VerbCounter: "counter", messaging.VerbBatchStore: "store", messaging.VerbBatchRemove: "remove",
	messaging.VerbReadRepair: "repair", messaging.VerbHint: "hint", messaging.VerbTruncate: "truncate",
	messaging.VerbPartitions: "list", messaging.VerbSearch: "search",
	messaging.VerbPaxosPrepare: "prepare", messaging.VerbPaxosAccept: "accept", messaging.VerbPaxosCommit: "commit",
	messaging.VerbTurn: "turn", messaging.VerbPass: "pass", messaging.VerbNewest: "newest",
}

// Handle implements messaging.Transport. A restart registers all services again.
func (p *postbox) Handle(s messaging.Service) { p.n.services[s.Verb] = s }

// Run implements messaging.Transport. It calls f, because a Cluster has no goroutines. A handler that blocks would
// block the whole cluster.
func (p *postbox) Run(_ int, f func()) error {
	f()
	return nil
}

// Send implements messaging.Transport. It has no answer; a message to a process that has ended reaches the next one, as
// in a network.
func (p *postbox) Send(to ring.NodeID, verb messaging.Verb, payload []byte) {
	payload = slices.Clone(payload)
	p.n.c.post(Link{p.n.ID, to}, verbNames[verb], func() {
		// The handlers of the process that runs when the message arrives: a restart replaces services.
		p.n.c.Node(to).services[verb].Handler(p.n.ID, payload, func([]byte, error) {})
	})
}

// Request implements messaging.Transport. Exactly one of the answer, the timeout and the refusal reaches reply, unless
// the process has ended. A late reply is delivered and has no effect, so it still appears in the output.
func (p *postbox) Request(to ring.NodeID, verb messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	c, from := p.n.c, p.n.ID
	// At once, without the clock: the sender knows that the request was not sent.
	if c.away[to] {
		c.printf("%d>%d %s unreachable", from, to, verbNames[verb])
		reply(nil, messaging.ErrUnreachable)
		return
	}
	answered := false
	// The timer is not in Flight: it expires when a command advances the clock.
	timer := c.Clock.After(timeout, func() {
		if !answered && !p.process.ended {
			answered = true
			reply(nil, messaging.ErrTimeout)
		}
	})
	// The reply is a message of its own, which a scenario can delay or lose.
	back := func(payload []byte, err error) {
		payload = slices.Clone(payload)
		c.post(Link{to, from}, verbNames[verb]+" "+outcome(verb, payload, err), func() {
			if !answered && !p.process.ended {
				answered = true
				timer.Stop()
				reply(payload, err)
			}
		})
	}
	payload = slices.Clone(payload)
	c.post(Link{from, to}, verbNames[verb], func() {
		// The fault is examined when the request arrives.
		if err := c.broken[to]; err != nil {
			back(nil, err)
			return
		}
		c.Node(to).services[verb].Handler(from, payload, back)
	})
}

// outcome formats a reply. The text follows the verb in the line of the reply, for example "2>1 read page k{a=x@1}".
func outcome(verb messaging.Verb, payload []byte, err error) string {
	switch {
	case err != nil:
		return "failed: " + err.Error()
	// Only replies whose contents matter to scenarios are shown.
	case verb == messaging.VerbRead:
		return "page " + FormatPage(payload)
	case verb == messaging.VerbNewest:
		c := wire.NewCursor(payload)
		if n := c.Int64(); n != row.NoTimestamp {
			return strconv.FormatInt(n, 10)
		}
		return "none"
	}
	return "ok"
}
