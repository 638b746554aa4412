package internodetls

// namesResolvedMax bounds the DNS names of a certificate that are resolved, and namesShownMax those of a message. The
// certificates of nodes have a few.
const (
	namesResolvedMax = 8
	namesShownMax    = 4
)
