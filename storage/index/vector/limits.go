package vector

const (
	// defaultConnections and defaultBeam are the defaults of Cassandra's options maximum_node_connections and
	// construction_beam_width.
	defaultConnections = 16
	defaultBeam        = 100

	// defaultExact is the number of vectors up to which searches compare all of them. It costs about as much as a
	// search of the graph.
	defaultExact = 2000

	// maxLevel bounds the levels of a node. With 16 connections, level 15 has one node in 16^15.
	maxLevel = 15

	// slackDivisor allows a node to exceed its number of links by 1/slackDivisor before they are selected again, so
	// that the selection is not repeated for each new link.
	slackDivisor = 2

	// minGhosts and ghostDivisor bound the deleted nodes that wait to be unlinked: minGhosts, or that part of all
	// nodes.
	minGhosts    = 64
	ghostDivisor = 8

	// scanDivisor bounds the walk through the graph: a search that has computed the scores of that part of all nodes,
	// and needs more, compares the rest of them without the graph.
	scanDivisor = 4

	// chunkSize is the number of nodes in a chunk of the table of nodes.
	chunkSize = 1024
)
