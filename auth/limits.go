package auth

// Bounds of a Directory, which every node keeps in memory and every snapshot of the metadata contains.
const (
	rolesMax      = 50_000
	grantsMax     = 10_000 // resources on which one role has permissions
	identitiesMax = 100_000
	optionsMax    = 64     // options of one role
	accountsMax   = 10_000 // accounts of Azure Tables
	groupsMax     = 1_000
	groupCIDRsMax = 10_000
	nameBytesMax  = 65_535 // name of a role, an identity or a CIDR group, in bytes

	accountKeyBytesMin, accountKeyBytesMax = 16, 256 // size of a decoded key, in bytes
)
