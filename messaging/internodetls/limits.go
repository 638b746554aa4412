package internodetls

// namesResolvedMax bounds the DNS names of a certificate that are resolved, and namesShownMax bounds the names in a
// message. The certificates of nodes have a few.
const (
	namesResolvedMax = 8
	namesShownMax    = 4
)
